# Shared by the scripts beside it: stages with times, waits with deadlines, images. Sourced, never run.
# shellcheck shell=bash

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

# A terminal gets one line that changes, a pipe only the lines that begin with `: `, which the steps mark as worth keeping
show_progress() {
  local line
  while IFS= read -r line; do
    case $line in
      ': '*) printf '%s        %s\n' "$([ -t 1 ] && printf '\r\e[K')" "${line#: }" ;;
      *) [ -t 1 ] && printf '\r\e[K        %s%.100s%s' "$dim" "$line" "$plain" ;;
    esac
  done
  if [ -t 1 ]; then printf '\r\e[K'; fi
}
keep() { printf ': %s\n' "$*"; }

# ---- waits ----------------------------------------------------------------------------------------------------

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

# operator_image VERSION, bundle_image VERSION, and the same of the sample operator: names that tell what is inside. A node pulls a tag once, so a tag that stays while its
# content changes would leave a living cluster with what an earlier build pushed.
operator_image() { printf '%s/roadstead-operator:v%s-%s' "$REGISTRY" "$1" "$(content)"; }
bundle_image() { printf '%s/roadstead-bundle:v%s-%s' "$REGISTRY" "$1" "$(content)"; }
greeter_image() { printf '%s/roadstead-greeter:v%s-%s' "$REGISTRY" "$1" "$(greeter_content)"; }
greeter_bundle_image() { printf '%s/roadstead-greeter-bundle:v%s-%s' "$REGISTRY" "$1" "$(greeter_content)"; }
content() { find dist/roadstead Dockerfile config -type f -print0 | sort -z | xargs -0 cat | sha256sum | cut -c1-10; }
greeter_content() {
  find dist/roadstead-greeter examples/greeter/{Dockerfile,crds,manifests} -type f -print0 | sort -z | xargs -0 cat | sha256sum | cut -c1-10
}

# make_bundle VERSION FOLDER [CATALOG]: the bundle of one version, and the Dockerfile of its image, in FOLDER. What the
# version replaces is looked up in CATALOG.
make_bundle() {
  ./dist/roadstead bundle generate --version "$1" --image "$(operator_image "$1")" \
    --catalog "${3:-$2/none}" --output "$2/bundle"
}

# add_to_catalog VERSION FOLDER CATALOG [OPTION...]: adds the bundle in FOLDER to the catalog
add_to_catalog() {
  local version=$1 folder=$2 catalog=$3
  shift 3
  ./dist/roadstead catalog generate --bundle "$folder/bundle" --bundle-image "$(bundle_image "$version")" \
    --output "$catalog" "$@"
}
