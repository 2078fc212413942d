# The scenarios of this folder in ns-2.
#
#     ns scenario.tcl topology=single protocol=reno loss=0.01 seed=1
#
# topology: single, lr-dumbbell, xcp (the .toml files beside this one); lfn, sfn, ltn (eten.toml);
#           lr-shared (experiments/papers/lr2008/fig8.toml and fig9.toml), wireless (tcpwbr2003,
#           fig2.toml), estcp and estcp-one (estcp2010, fig3a.toml and fig3b.toml)
# protocol: reno, newreno, sack, xcp-dumb (Reno/XCP with Queue/XCP); full-sack (FullTcp/Sack, on
#           lfn, sfn and ltn); westwood+ and veno (modules tcp_westwood.c and tcp_veno.c of Linux
#           in Agent/TCP/Linux)
# flows:    number of flows (xcp, estcp)
# delay:    of each link (lr-shared)
# loss:     probability of a loss on the wire, or on the last hop of the lossy group; the bit-error
#           rate on lfn, sfn and ltn
# extra:    more bindings of Agent/TCP, as in extra=bugFix_:false,singledup_:0
#
# Prints one line of KEY VALUE pairs; values cover the time after the warm-up.
remove-all-packet-headers
add-packet-header IP TCP Flags XCP

array set arg {
    topology single protocol reno flows 1 loss 0 delay 20ms seed 1 duration 300 warmup 20 extra {}
}
foreach word $argv {
    if {![regexp {^([a-z]+)=(.*)$} $word -> key value] || ![info exists arg($key)]} {
        puts stderr "unknown argument $word; there are [array names arg]"
        exit 2
    }
    set arg($key) $value
}

set ns [new Simulator]
$ns use-scheduler Heap
ns-random $arg(seed)
set rng [new RNG]
$rng seed $arg(seed)
set starts [new RandomVariable/Uniform]
$starts use-rng $rng
$starts set min_ 0
$starts set max_ 1

# Windward takes an RTT sample of every acknowledgment, from its timestamp, and ends the back-off
# with it (RFC 7323, RFC 6298 section 5). 950 bytes, 40 of header and the 10 that ns-2 counts for
# the option make 1000 on the wire.
Agent/TCP set timestamps_ true
Agent/TCP set ts_resetRTO_ true
Agent/TCP set packetSize_ 950
Agent/TCP set window_ 1048576
Agent/TCP set windowInit_ 2
Agent/TCP set syn_ false
Agent/TCP set delay_growth_ false
Agent/TCP set minrto_ 0.2
Agent/TCP set tcpTick_ 0.01
Agent/TCP set rtxcur_init_ 3.0
Agent/TCP set bugFix_ true
Agent/TCP set singledup_ 1
Agent/TCPSink set packetSize_ 40
Agent/TCPSink set ts_echo_bugfix_ true
set packet 1000
if {[lsearch {lfn sfn ltn} $arg(topology)] >= 0} {
    # 526 bytes with the 50 of headers make 576 on the wire.
    set packet 576
    Agent/TCP set packetSize_ 526
    Agent/TCP set window_ 2400
    Agent/TCP set minrto_ 1.0
    Agent/TCP/FullTcp set segsize_ 526
}
if {[string match lr-* $arg(topology)]} {
    # All links have one rate, so that packets meet at the same instants, and the rounding of times
    # would decide which is dropped. Each leaves within a random microsecond instead.
    Agent/TCP set overhead_ 0.000001
}
foreach pair [split $arg(extra) ,] {
    foreach {key value} [split $pair :] { Agent/TCP set $key $value }
}

switch $arg(protocol) {
    reno     { set source TCP/Reno;     set sink TCPSink }
    newreno  { set source TCP/Newreno;  set sink TCPSink }
    sack     { set source TCP/Sack1;    set sink TCPSink/Sack1 }
    xcp-dumb { set source TCP/Reno/XCP; set sink TCPSink/XCPSink }
    full-sack { set source TCP/FullTcp/Sack; set sink TCP/FullTcp/Sack }
    westwood+ { set source TCP/Linux;   set sink TCPSink/Sack1; set module westwood }
    veno     { set source TCP/Linux;    set sink TCPSink/Sack1; set module veno }
    default  { puts stderr "unknown protocol $arg(protocol)"; exit 2 }
}

# In both directions; `queue` packets may wait: ns-2 drops a packet that would fill the queue to its limit.
proc wire {from to rate delay queue} {
    global ns arg
    if {$arg(protocol) == "xcp-dumb"} { set kind XCP } else { set kind DropTail }
    $ns simplex-link $from $to $rate $delay $kind
    $ns simplex-link $to $from $rate $delay DropTail
    $ns queue-limit $from $to [expr $queue + 1]
    $ns queue-limit $to $from [expr $queue + 1]
    if {$kind == "XCP"} {
        set link [$ns link $from $to]
        [$link queue] set-link-capacity [[$link link] set bandwidth_]
    }
}

# Losses of single packets beyond the queue, towards the receiver.
set losers {}
proc lossy {from to rate} {
    global ns losers rng
    if {$rate == 0} return
    set model [new ErrorModel]
    $model unit pkt
    $model set rate_ $rate
    set uniform [new RandomVariable/Uniform]
    $uniform use-rng $rng
    $model ranvar $uniform
    $ns link-lossmodel $model $from $to
    # Not the drop target of the link, whose monitor would count a loss as a drop by the queue.
    $model drop-target [new Agent/Null]
    lappend losers $model
}

set flows 0
proc flow {from to group} {
    global ns arg flows source sink module tcp groups starts
    set tcp($flows) [new Agent/$source]
    set receiver [new Agent/$sink]
    $tcp($flows) set fid_ $flows
    $ns attach-agent $from $tcp($flows)
    $ns attach-agent $to $receiver
    $ns connect $tcp($flows) $receiver
    if {$arg(protocol) == "full-sack"} { $receiver listen }
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp($flows)
    if {[info exists module]} { $ns at 0 "$tcp($flows) select_ca $module" }
    $ns at [$starts value] "$ftp start"
    set groups($flows) $group
    incr flows
}

set left [$ns node]
set right [$ns node]
switch $arg(topology) {
    single {
        set rate 10e6
        wire $left $right 10Mb 40ms 100
        lossy $left $right $arg(loss)
        flow $left $right all
    }
    lr-dumbbell {
        set rate 5e6
        wire $left $right 5Mb 20ms 50
        foreach {group loss} "clean 0 lossy $arg(loss)" {
            for {set i 0} {$i < 5} {incr i} {
                set from [$ns node]
                set to [$ns node]
                wire $from $left 5Mb 20ms 50
                wire $right $to 5Mb 20ms 50
                lossy $right $to $loss
                flow $from $to $group
            }
        }
    }
    xcp {
        set rate 20e6
        wire $left $right 20Mb 20ms 200
        for {set i 0} {$i < $arg(flows)} {incr i} {
            set from [$ns node]
            set to [$ns node]
            wire $from $left 100Mb 1ms 200
            wire $right $to 100Mb 1ms 200
            lossy $right $to $arg(loss)
            flow $from $to all
        }
    }
    lr-shared {
        set rate 5e6
        wire $left $right 5Mb $arg(delay) 50
        foreach {group loss} "clean 0 lossy $arg(loss)" {
            set to [$ns node]
            wire $right $to 5Mb $arg(delay) 50
            lossy $right $to $loss
            for {set i 0} {$i < 5} {incr i} {
                set from [$ns node]
                wire $from $left 5Mb $arg(delay) 50
                flow $from $to $group
            }
        }
    }
    wireless {
        set rate 45e6
        set to [$ns node]
        wire $left $right 45Mb 35ms 50
        wire $right $to 11Mb 0.01ms 50
        lossy $right $to $arg(loss)
        flow $left $to all
    }
    estcp {
        set rate 100e6
        wire $left $right 100Mb 10ms 750
        for {set i 0} {$i < $arg(flows)} {incr i} {
            set from [$ns node]
            set to [$ns node]
            set delay [expr 5 + 40.0 * $i / ($arg(flows) - 1)]ms
            wire $from $left 1000Mb $delay 10000
            wire $right $to 1000Mb $delay 10000
            flow $from $to all
        }
    }
    estcp-one {
        set rate 100e6
        set from [$ns node]
        set to [$ns node]
        wire $left $right 100Mb 40ms 1250
        wire $from $left 1000Mb 5ms 10000
        wire $right $to 1000Mb 5ms 10000
        lossy $right $to $arg(loss)
        flow $from $to all
    }
    lfn - sfn - ltn {
        foreach {rate mbps delay queue} [dict get {
            lfn {10e6 10Mb 250ms 1085} sfn {10e6 10Mb 25ms 109} ltn {1.5e6 1.5Mb 250ms 163}
        } $arg(topology)] break
        wire $left $right $mbps $delay $queue
        lossy $left $right [expr 1 - pow(1 - $arg(loss), 8 * $packet)]
        flow $left $right all
    }
    default { puts stderr "unknown topology $arg(topology)"; exit 2 }
}

set monitor [$ns monitor-queue $left $right ""]
set integral [$monitor get-pkts-integrator]
# Packets of each flow that leave the bottleneck.
set by_flow [$ns makeflowmon Fid]
$ns attach-fmon [$ns link $left $right] $by_flow

proc snapshot {} {
    global tcp flows monitor by_flow integral ns
    set now [$ns now]
    set result [list queue [expr [$integral set sum_] + 0.0] bytes [$monitor set bdepartures_] \
        drops [$monitor set pdrops_]]
    for {set i 0} {$i < $flows} {incr i} {
        lappend result ack$i [expr [$tcp($i) set ack_]] sent$i [$tcp($i) set ndatapack_] \
            again$i [$tcp($i) set nrexmitpack_] timeouts$i [$tcp($i) set nrexmit_]
    }
    for {set i 0} {$i < $flows} {incr i} { lappend result passed$i 0 }
    foreach flow [$by_flow flows] {
        lappend result passed[$flow set flowid_] [$flow set bdepartures_]
    }
    return $result
}

proc finish {} {
    global arg before flows groups rate packet
    array set a $before
    array set b [snapshot]
    set span [expr $arg(duration) - $arg(warmup)]
    set out {}
    foreach key {sent again timeouts} {
        set sum 0
        for {set i 0} {$i < $flows} {incr i} { incr sum [expr $b($key$i) - $a($key$i)] }
        lappend out $key $sum
    }
    set sum 0.0
    set squares 0.0
    # FullTcp counts bytes, the others packets.
    set unit [expr {$arg(protocol) == "full-sack" ? $packet / 526.0 : $packet}]
    for {set i 0} {$i < $flows} {incr i} {
        set goodput [expr ($b(ack$i) - $a(ack$i)) * $unit * 8.0 / $span]
        set sum [expr $sum + $goodput]
        set squares [expr $squares + $goodput * $goodput]
        if {![info exists total($groups($i))]} { set total($groups($i)) 0.0 }
        set total($groups($i)) [expr $total($groups($i)) + $goodput]
    }
    foreach group [array names total] { lappend out goodput:$group $total($group) }
    for {set i 0} {$i < $flows} {incr i} {
        if {![info exists through($groups($i))]} { set through($groups($i)) 0.0 }
        set bits [expr ($b(passed$i) - $a(passed$i)) * 8]
        set through($groups($i)) [expr $through($groups($i)) + $bits]
    }
    foreach group [array names through] {
        lappend out throughput:$group [expr $through($group) / $span]
    }
    set jain [expr {$squares > 0 ? $sum * $sum / ($flows * $squares) : 1.0}]
    lappend out goodput $sum jain $jain
    lappend out utilization [expr ($b(bytes) - $a(bytes)) * 8 / $span / $rate]
    lappend out queue [expr ($b(queue) - $a(queue)) / $span] drops [expr $b(drops) - $a(drops)]
    puts $out
    exit 0
}

$ns at $arg(warmup) { set before [snapshot] }
$ns at $arg(duration) finish
$ns run
