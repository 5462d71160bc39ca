#!/bin/busybox sh
# The first program of a guest: loads what its kernel has as modules, and takes the host's files, read-only, with memory
# above them. The agent goes on there.
busybox mkdir -p /proc /sys /dev /host /memory /root
busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t devtmpfs devtmpfs /dev

# What the command line of the kernel says of a name.
told() {
    for word in $(busybox cat /proc/cmdline); do
        case $word in "$1"=*) echo "${word#*=}" ;; esac
    done
}

for module in $(told guest.modules | busybox tr , ' '); do
    busybox insmod "/modules/$module.ko" || echo "module $module cannot be loaded"
done
busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=131072,cache=loose,ro host /host
busybox mount -t tmpfs memory /memory
busybox mkdir /memory/upper /memory/work
busybox mount -t overlay -o lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work overlay /root
for place in proc sys dev; do
    busybox mount --bind /$place /root/$place
done
busybox mount -t tmpfs run /root/run
busybox cp /agent.sh /root/run/agent
exec busybox chroot /root /bin/sh /run/agent "$(told guest.address)"
