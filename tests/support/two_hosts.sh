# Two hosts that are network namespaces of this machine, joined by a pair of virtual interfaces, for which root is needed: make_two_hosts, which
# fails where namespaces are not permitted, and remove_two_hosts. $host_a and $host_b: the namespaces, for `ip netns exec`. Their addresses are
# $network.1 and $network.2.
host_a=longspan$$a host_b=longspan$$b network=10.98.$(($$ % 200))

make_two_hosts() {
    ip netns add $host_a && ip netns add $host_b && ip link add l$$a type veth peer name l$$b && ip link set l$$a netns $host_a &&
        ip link set l$$b netns $host_b && ip -n $host_a addr add $network.1/24 dev l$$a && ip -n $host_b addr add $network.2/24 dev l$$b &&
        ip -n $host_a link set l$$a up && ip -n $host_b link set l$$b up && ip -n $host_a link set lo up && ip -n $host_b link set lo up
}

remove_two_hosts() {
    local host
    for host in $host_a $host_b; do ip netns del $host 2>/dev/null || true; done
}
