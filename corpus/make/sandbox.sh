#!/bin/sh
# Usage: unshare --mount --uts --net --ipc sh sandbox.sh BOX CHECKOUT PREFIX BASE_PREFIX UID SHM_MIB GROUP...
#
# Runs BOX/launch as the user UID on a machine of its own: nothing that is done there
# is seen outside but what lies in BOX/home, and nothing there tells whose machine it is.
#
#   /home/user      BOX/home
#   /opt/gpualert   CHECKOUT, read only
#   /opt/venv       PREFIX, a virtual environment
#   /usr/local      BASE_PREFIX, the Python that PREFIX was made from, unless that is in /usr
# shellcheck disable=SC2250
set -eu
box=$1 checkout=$2 prefix=$3 base=$4 uid=$5 shm_mib=$6
shift 6
for group; do echo $$ >"$group/cgroup.procs"; done

mount --make-rprivate /
mount -t tmpfs -o mode=755 box "$box/over"
for name in system venv; do mkdir -p "$box/over/$name/upper" "$box/over/$name/work"; done
mkdir "$box/over/root"
root=$box/over/root
mount -t overlay -o "lowerdir=/,upperdir=$box/over/system/upper,workdir=$box/over/system/work" box "$root"
for name in proc sys dev; do mount --rbind "/$name" "$root/$name"; done
mount -t tmpfs -o "mode=1777,size=${shm_mib}m" shm "$root/dev/shm"
for name in home root tmp; do mount -t tmpfs -o mode=1777 "$name" "$root/$name"; done

mkdir -p "$root/home/user" "$root/opt/gpualert" "$root/opt/venv"
mount --bind "$box/home" "$root/home/user"
mount --bind -o ro "$checkout" "$root/opt/gpualert"
mount -t overlay -o "lowerdir=$prefix,upperdir=$box/over/venv/upper,workdir=$box/over/venv/work" venv "$root/opt/venv"
case $base in
/usr) ;;
*)
    # The interpreter is found through a link, and a file that tells its home.
    python=$(readlink -f "$prefix/bin/python3")
    mount --bind -o ro "$base" "$root/usr/local"
    for name in python python3 "${python##*/}"; do ln -sfn "/usr/local/bin/${python##*/}" "$root/opt/venv/bin/$name"; done
    printf 'home = /usr/local/bin\ninclude-system-site-packages = false\n' >"$root/opt/venv/pyvenv.cfg"
    chroot "$root" ldconfig
    ;;
esac

# Programs of the virtual environment begin with the path that it had.
grep -lIr "^#!$prefix/bin/" "$root/opt/venv/bin" | xargs -r sed -i "1s|^#!$prefix/bin/|#!/opt/venv/bin/|"

hostname node01
ip link set lo up
cd "$root/etc"
rm -f hosts resolv.conf passwd group hostname
echo '127.0.0.1 localhost node01' >hosts
echo 'nameserver 10.0.0.53' >resolv.conf
echo node01 >hostname
printf '%s\n' root:x:0:0:root:/root:/bin/bash "user:x:1000:1000::/home/user:/bin/bash" \
    nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin >passwd
printf '%s\n' root:x:0: users:x:1000: nogroup:x:65534: >group

chroot "$root" sh -euc 'cd /home/user/project && . /home/user/.prepare' >&2
exec chroot --userspec="$uid:$uid" --groups= "$root" env -i sh /home/user/.launch
