# Shared by the scripts beside it: stages with times, waits with deadlines, images. Sourced, never run.
# shellcheck shell=bash

# What fails is seen by `set -e` where it stands alone or is assigned, not as an argument: `x=$(f)`, then use "$x". And it has to end the
# substitution that it fails in, not only the whole script.
shopt -s inherit_errexit

die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# need PROGRAM REMEDY: a missing program is named in one line with what to do about it
need() { command -v "$1" >/dev/null 2>&1 || die "$1 is missing: $2"; }

# ---- stages ---------------------------------------------------------------------------------------------------

if [ -t 1 ]; then bold=$'\e[1m' dim=$'\e[2m' red=$'\e[31m' green=$'\e[32m' plain=$'\e[0m'; else bold='' dim='' red='' green='' plain=''; fi
stage_number=0
stage_total=0 # set by the script before its first stage
stage_name=''
stage_log=''

# stage NAME COMMAND...: runs a step, shows its name, the last line of what it says while it works, and its time.
# Its whole output goes to a log that is shown when it fails.
stage() {
  stage_name=$1
  shift
  stage_number=$((stage_number + 1))
  stage_log=$LOGS/$(printf '%02d' "$stage_number").log
  local started=$SECONDS status=0
  printf '%s[%2d/%d] %s%s\n' "$bold" "$stage_number" "$stage_total" "$stage_name" "$plain"
  set +e
  (set -e; "$@") 2>&1 | tee "$stage_log" | show_progress
  status=${PIPESTATUS[0]}
  set -e
  if [ "$status" -ne 0 ]; then
    printf '        %sfailed after %d s%s; the last lines of %s:\n' "$red" $((SECONDS - started)) "$plain" "$stage_log" >&2
    tail -n 25 "$stage_log" | sed 's/^/        | /' >&2
    exit "$status"
  fi
  printf '        %sdone in %d s%s\n' "$green" $((SECONDS - started)) "$plain"
}

# A terminal gets one line that changes. A pipe gets the lines that begin with `: `, which the steps mark as worth keeping, and when there
# was none for QUIET seconds what was said last, so that a log tells a slow step from one that hangs.
QUIET=30
show_progress() {
  local line='' part last='nothing was said yet' begun=$SECONDS shown=$SECONDS status
  while :; do
    status=0
    # What was read of a line when the time is over is kept: the rest follows
    IFS= read -r -t 1 part || status=$?
    line+=$part
    if [ "$status" -eq 0 ] || { [ "$status" -le 128 ] && [ -n "$line" ]; }; then
      case $line in
        ': '*)
          if [ -t 1 ]; then printf '\r\e[K'; fi
          printf '        %s\n' "${line#: }"
          shown=$SECONDS
          ;;
        *)
          if [ -t 1 ]; then printf '\r\e[K        %s%.100s%s' "$dim" "$line" "$plain"; fi
          ;;
      esac
      last=$line line=''
    fi
    if [ "$status" -ne 0 ] && [ "$status" -le 128 ]; then break; fi
    if [ ! -t 1 ] && [ $((SECONDS - shown)) -ge "$QUIET" ]; then
      printf '        after %d s: %.100s\n' $((SECONDS - begun)) "${last#: }"
      shown=$SECONDS
    fi
  done
  if [ -t 1 ]; then printf '\r\e[K'; fi
}
keep() { printf ': %s\n' "$*"; }

# ---- waits ----------------------------------------------------------------------------------------------------

# kubectl ARGUMENT...: no request takes longer than this, or the deadline of a wait would not hold where an API server accepts and does not
# answer. Verbs that wait have a --timeout of their own besides, and ask again until then.
kubectl() { command "${KUBECTL:-kubectl}" --request-timeout=10s "$@"; }

# wait_for SECONDS WHAT EXPECTED COMMAND...: polls until the command prints EXPECTED; says what it waits for and what it last saw
wait_for() {
  local limit=$1 what=$2 expected=$3 seen='' last='' deadline=$((SECONDS + $1))
  shift 3
  while :; do
    seen=$("$@" 2>/dev/null) || seen=''
    [ "$seen" = "$expected" ] && return 0
    [ "$seen" = "$last" ] || printf 'waiting for %s to be %s: %s\n' "$what" "$expected" "${seen:-nothing yet}"
    last=$seen
    if [ "$SECONDS" -ge "$deadline" ]; then
      printf '%s is not %s after %d s; it is: %s\n' "$what" "$expected" "$limit" "${seen:-absent}" >&2
      return 1
    fi
    sleep 0.5
  done
}

# ---- images ---------------------------------------------------------------------------------------------------

# build_binary [greeter]: the static binary that the images hold
build_binary() {
  local built
  built=$(hack/build-static "$@")
  keep "$built"
}

# build_and_push CONTEXT DOCKERFILE REF [BUILD-ARG...]
build_and_push() {
  local context=$1 file=$2 ref=$3 arguments=()
  shift 3
  local argument
  for argument in "$@"; do arguments+=(--build-arg "$argument"); done
  if [ "$CLUSTER" = local ]; then
    hack/cluster/cluster build "$context" "$file" "$ref" "${arguments[@]}"
  else
    "$CONTAINER_TOOL" build -f "$file" -t "$ref" "${arguments[@]}" "$context"
    "$CONTAINER_TOOL" push "$ref"
  fi
}

# push_package bundle|catalog FOLDER REF: builds and pushes the image of a bundle or a catalog by the program itself
push_package() {
  local inside=()
  # The local cluster's registry listens in its own network alone
  if [ "$CLUSTER" = local ]; then inside=(hack/cluster/cluster exec); fi
  "${inside[@]}" ./dist/roadstead "$1" push "$2" "$3"
}

# operator_image VERSION, bundle_image VERSION, and the same of the sample operator: names that tell what is inside. A node pulls a tag
# once, so a tag that stays while its content changes would leave a living cluster with what an earlier build pushed.
operator_image() { image_of operator "$1"; }
bundle_image() { image_of bundle "$1"; }
greeter_image() { image_of greeter "$1" greeter_content; }
greeter_bundle_image() { image_of greeter-bundle "$1" greeter_content; }
image_of() {
  local content
  content=$("${3:-content}")
  printf '%s/roadstead-%s:v%s-%s' "$REGISTRY" "$1" "$2" "$content"
}
content() { find dist/roadstead Dockerfile config -type f -print0 | sort -z | xargs -0 cat | sha256sum | cut -c1-10; }
greeter_content() {
  find dist/roadstead-greeter examples/greeter/{Dockerfile,crds,manifests} -type f -print0 | sort -z | xargs -0 cat | sha256sum | cut -c1-10
}

# make_bundle VERSION FOLDER [CATALOG]: the bundle of one version, and the Dockerfile of its image, in FOLDER. What the
# version replaces is looked up in CATALOG.
make_bundle() {
  local image
  image=$(operator_image "$1")
  ./dist/roadstead bundle generate --version "$1" --image "$image" \
    --catalog "${3:-$2/none}" --output "$2/bundle"
}

# add_to_catalog VERSION FOLDER CATALOG [OPTION...]: adds the bundle in FOLDER to the catalog
add_to_catalog() {
  local version=$1 folder=$2 catalog=$3 image
  shift 3
  image=$(bundle_image "$version")
  ./dist/roadstead catalog generate --bundle "$folder/bundle" --bundle-image "$image" \
    --output "$catalog" "$@"
}
