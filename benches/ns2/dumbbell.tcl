# experiments/speed/dumbbell.toml in ns-2, with all costly features off: no traces, no
# nam, no monitors, only the packet headers in use. Splay is the fastest of its schedulers here
# (then Calendar, Heap, List); all give the same packets.
#
#     ns dumbbell.tcl flows=10 seed=1 duration=20 scheduler=Splay
#
# Prints one line: packet_hops N data N acks N goodput_bps X
remove-all-packet-headers
add-packet-header IP TCP Flags

array set arg {flows 10 seed 1 duration 20 scheduler Splay}
foreach word $argv {
    if {![regexp {^([a-z]+)=(.+)$} $word -> key value] || ![info exists arg($key)]} {
        puts stderr "unknown argument $word; there are [array names arg]"
        exit 2
    }
    set arg($key) $value
}

set ns [new Simulator]
$ns use-scheduler $arg(scheduler)
ns-random $arg(seed)
set starts [new RandomVariable/Uniform]
$starts set min_ 0
$starts set max_ 0.1

Agent/TCP set packetSize_ 960;          # and 40 bytes of header: 1000 on the wire
Agent/TCP set window_ 1048576
Agent/TCP set windowInit_ 2
Agent/TCP set syn_ false
Agent/TCP set delay_growth_ false
Agent/TCP set minrto_ 0.2
Agent/TCP set tcpTick_ 0.01
Agent/TCPSink set packetSize_ 40

# ns-2 drops a packet that would fill the queue to its limit: 1001 lets 1000 packets wait.
Queue set limit_ 1001
set left [$ns node]
set right [$ns node]
$ns duplex-link $left $right 1Gb 10ms DropTail
for {set i 0} {$i < $arg(flows)} {incr i} {
    set from [$ns node]
    set to [$ns node]
    $ns duplex-link $from $left 10Gb 1ms DropTail
    $ns duplex-link $right $to 10Gb 1ms DropTail
    set tcp($i) [new Agent/TCP/Sack1]
    set sink [new Agent/TCPSink/Sack1]
    $ns attach-agent $from $tcp($i)
    $ns attach-agent $to $sink
    $ns connect $tcp($i) $sink
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp($i)
    $ns at [$starts value] "$ftp start"
}

# Every packet crosses three links; senders count the packets on the first and from the last. Data
# dropped at the bottleneck crossed only one link: a drop of data is a packet sent and never
# acknowledged (one acknowledgment per packet, none of which is dropped). Packets in flight at the end
# count as drops, which are a few windows in millions of packets.
proc finish {} {
    global tcp arg
    set data 0
    set acks 0
    set unique 0
    for {set i 0} {$i < $arg(flows)} {incr i} {
        incr data [$tcp($i) set ndatapack_]
        incr acks [$tcp($i) set nackpack_]
        incr unique [expr [$tcp($i) set ack_] + 1]
    }
    set hops [expr $data + 5 * $acks]
    set goodput [expr $unique * 8000.0 / $arg(duration)]
    puts "packet_hops $hops data $data acks $acks goodput_bps $goodput"
    exit 0
}
$ns at $arg(duration) finish
$ns run
