# The cluster's cgroup: one tree that holds its processes ("control") and its pods ("kubepods"), in
# every hierarchy of the host. It is the one thing that namespaces do not take away by themselves.
# shellcheck shell=bash

CGROUP=roadstead-cluster/$CLUSTER_NAME

# The mount points of all hierarchies: several on a cgroup v1 host, one on v2.
cgroup_hierarchies() { awk '$3 == "cgroup" || $3 == "cgroup2" {print $2}' /proc/mounts; }

# enter_cgroup: makes the tree and moves this process, and so all that it starts, into "control".
enter_cgroup() {
  local top group part
  for top in $(cgroup_hierarchies); do
    group=$top
    for part in ${CGROUP/\// } control; do
      hand_controllers_down "$group"
      mkdir -p "$group/$part"
      fill_cpuset "$group" "$group/$part"
      group+=/$part
    done
    echo $$ >"$group/cgroup.procs"
  done
}

# fill_cpuset PARENT GROUP: under v1 a new cpuset is empty and takes no process.
fill_cpuset() {
  local file
  for file in cpuset.cpus cpuset.mems; do
    [[ ! -e $2/$file || -e $2/cgroup.controllers || -n $(<"$2/$file") ]] || cat "$1/$file" >"$2/$file"
  done
}

# hand_controllers_down GROUP: under v2 a group has only the controllers that its parent hands down.
hand_controllers_down() {
  local controller
  # Beside v1 hierarchies, v2 has nothing that the kubelet uses.
  [[ -e $1/cgroup.controllers && -e /sys/fs/cgroup/cgroup.controllers ]] || return 0
  # One by one, for the host may refuse one.
  for controller in $(<"$1/cgroup.controllers"); do
    echo "+$controller" >"$1/cgroup.subtree_control" 2>/dev/null || true
  done
}

# remove_cgroups: from the leaves up; a group can go only when its last process has gone.
remove_cgroups() {
  await 30 "the cluster's cgroups to become empty" remove_cgroups_once
}

remove_cgroups_once() {
  local top left=0
  for top in $(cgroup_hierarchies); do
    [[ -d $top/$CGROUP ]] || continue
    find "$top/$CGROUP" -depth -type d -exec rmdir {} + || left=1
    rmdir "$top/${CGROUP%/*}" 2>/dev/null || true # another cluster may be in it
  done
  return "$left"
}

# The most memory that the cluster's own programs, and its pods, have used.
cgroup_memory() {
  local part file
  for part in control kubepods; do
    for file in /sys/fs/cgroup/memory/$CGROUP/$part/memory.usage_in_bytes /sys/fs/cgroup/$CGROUP/$part/memory.current; do
      [[ ! -e $file ]] || printf '%s %d MiB  ' "$part" $(($(<"$file") >> 20))
    done
  done
}
