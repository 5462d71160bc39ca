# In a guest: runs the commands that come by the second serial port, one a line, and answers each with its output in base64
# and its status.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root VMA_STATS_SHMEM_DIR=/run
ip link set lo up
for attempt in 1 2 3 4 5 6 7 8 9 10; do
    [ -e /sys/class/net/eth0 ] && break
    sleep 0.3
done
ip address add "$1/24" dev eth0
ip link set eth0 up
exec 3<>/dev/ttyS1
stty raw -echo <&3
echo ready >&3
while read -r line <&3; do
    sh -c "$line" >/run/output 2>&1 </dev/null 3>&-
    status=$?
    base64 -w 0 /run/output >&3
    echo " $status" >&3
done
