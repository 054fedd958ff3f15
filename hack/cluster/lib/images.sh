# Images, one folder of images/ each: "stage CONTEXT BIN" fills a build context, its Dockerfile makes an
# image of it, which is kept as an OCI archive named after what went into it.
# shellcheck shell=bash

# image_archive NAME: where the archive of images/NAME is, or will be.
image_archive() {
  local name=$1 key parts="" other
  # Only an image whose stage copies them from BIN depends on the cluster's programs.
  # shellcheck disable=SC2016
  ! grep -q '"\$2/' "$HERE/images/$name/stage" || parts=$(programs_key)
  # And what it leaves to the stage of another one
  while IFS= read -r other; do
    parts+=$(hash_of_folder "$HERE/images/$other")
  done < <(sed -n 's|.*/\.\./\([a-z0-9-]*\)/stage.*|\1|p' "$HERE/images/$name/stage")
  key=$(printf '%s' "$(hash_of_folder "$HERE/images/$name")$parts" | sha256sum | cut -c1-16)
  printf '%s/images/%s-%s.tar\n' "$CACHE" "$name" "$key"
}

# Those that every cluster has; an image with a file `on-demand`, which says why, is made for whoever asks for it alone.
image_names() {
  local folder
  for folder in "$HERE/images"/*; do
    [[ -e $folder/on-demand ]] || basename "$folder"
  done
}

# shellcheck disable=SC2046 # names of ours, without spaces
images() { make_images $(image_names); }

# image NAME: to the registry of the running cluster, made if it is not there yet.
image() {
  (($# == 1)) || die "usage: cluster image NAME, for example: cluster image postgres-18"
  [[ -d $HERE/images/$1 ]] || die "there is no image '$1'; there are: $(cd "$HERE/images" && echo *)"
  need_running
  make_images "$1"
  push "$(image_archive "$1")" "$REGISTRY/$1:latest"
}

# make_images NAME...: the archives of those that have none yet.
make_images() {
  programs
  mkdir -p "$CACHE/images"
  exec 8>"$CACHE/images/.lock"
  flock 8
  local name archive
  for name; do
    archive=$(image_archive "$name")
    [[ -e $archive ]] || stage "image $name" build_base_image "$name" "$archive"
  done
  exec 8>&-
}

build_base_image() {
  local name=$1 archive=$2 work log=$CACHE/images/$1.log
  work=$(mktemp -d "$CACHE/images/.work-XXXXXX")
  mkdir "$work/context"
  # Joined by &&, since "set -e" does not hold before ||. Layers stay uncompressed: the registry is on the same machine, and packing costs
  # more than it saves.
  {
    "$HERE/images/$name/stage" "$work/context" "$(bin_folder)" &&
      buildah_in "$work/storage" bud --isolation chroot --timestamp 0 --tag "$name" \
        --file "$HERE/images/$name/Dockerfile" "$work/context" &&
      buildah_in "$work/storage" push --disable-compression "$name" "oci-archive:$work/image.tar:$name"
  } >"$log" 2>&1 || die "image $name could not be built: $(tail -n 3 "$log") (all of it in $log)"
  mv "$work/image.tar" "$archive"
  rm -rf "$work"
}

# buildah_in STORAGE COMMAND...: vfs storage needs no mounts, so nothing stays behind.
buildah_in() {
  local storage=$1 command=$2
  shift 2
  buildah --root "$storage/root" --runroot "$storage/run" --storage-driver vfs "$command" "$@"
}

# push_archive ARCHIVE REF: to the registry of this network namespace.
push_archive() {
  local source
  if [[ -d $1 ]]; then
    source=oci:$1
  elif tar -tf "$1" 2>/dev/null | grep -qx -e oci-layout -e ./oci-layout; then
    source=oci-archive:$1
  elif tar -tf "$1" 2>/dev/null | grep -qx -e manifest.json -e ./manifest.json; then
    source=docker-archive:$1
  else
    die "'$1' is no image archive; expected an OCI archive, an OCI layout folder or the output of docker save"
  fi
  skopeo --insecure-policy copy --quiet --preserve-digests --dest-tls-verify=false "$source" "docker://$2"
}
