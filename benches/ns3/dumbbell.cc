// experiments/speed/dumbbell.toml in ns-3: TCP with SACK over point-to-point links, an
// acknowledgment for each packet, no traces and no queue disciplines above the devices.
//
//     g++ -O2 dumbbell.cc -o dumbbell $(pkg-config --cflags --libs \
//         ns3-point-to-point ns3-applications ns3-traffic-control)
//     ./dumbbell --flows=10 --seed=1 --duration=2
//
// Prints one line: packet_hops N goodput_bps X

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

int main(int argc, char* argv[]) {
    uint32_t flows = 10;
    uint32_t seed = 1;
    double duration = 2;
    CommandLine command(__FILE__);
    command.AddValue("flows", "number of flows", flows);
    command.AddValue("seed", "seed of the run", seed);
    command.AddValue("duration", "simulated seconds", duration);
    command.Parse(argc, argv);

    RngSeedManager::SetRun(seed);
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpNewReno::GetTypeId()));
    // With 20 bytes of IP, 20 of TCP, 12 of its timestamps and 2 of PPP: 1000 on the wire.
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(946));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 22));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 22));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));

    InternetStackHelper internet;
    NetDeviceContainer devices;
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
    auto link = [&](Ptr<Node> a, Ptr<Node> b, const std::string& rate, const std::string& delay) {
        PointToPointHelper wire;
        wire.SetDeviceAttribute("DataRate", StringValue(rate));
        wire.SetChannelAttribute("Delay", StringValue(delay));
        wire.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1000p"));
        NetDeviceContainer ends = wire.Install(a, b);
        devices.Add(ends);
        Ipv4InterfaceContainer interfaces = addresses.Assign(ends);
        addresses.NewNetwork();
        TrafficControlHelper().Uninstall(ends);
        return interfaces.GetAddress(1);
    };

    NodeContainer routers(2);
    internet.Install(routers);
    link(routers.Get(0), routers.Get(1), "1Gbps", "10ms");
    Ptr<UniformRandomVariable> start = CreateObject<UniformRandomVariable>();
    std::vector<Ptr<PacketSink>> sinks;
    for (uint32_t i = 0; i < flows; ++i) {
        NodeContainer hosts(2);
        internet.Install(hosts);
        link(hosts.Get(0), routers.Get(0), "10Gbps", "1ms");
        Ipv4Address to = link(routers.Get(1), hosts.Get(1), "10Gbps", "1ms");
        BulkSendHelper sender("ns3::TcpSocketFactory", InetSocketAddress(to, 9));
        sender.SetAttribute("SendSize", UintegerValue(946));
        sender.Install(hosts.Get(0)).Start(Seconds(start->GetValue(0, 0.1)));
        PacketSinkHelper receiver("ns3::TcpSocketFactory", InetSocketAddress(to, 9));
        sinks.push_back(receiver.Install(hosts.Get(1)).Get(0)->GetObject<PacketSink>());
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    Simulator::Stop(Seconds(duration));
    Simulator::Run();
    // Each packet that enters the queue of a device crosses its link, but for those in flight at
    // the end.
    uint64_t hops = 0;
    for (uint32_t i = 0; i < devices.GetN(); ++i) {
        hops += DynamicCast<PointToPointNetDevice>(devices.Get(i))->GetQueue()->GetTotalReceivedPackets();
    }
    uint64_t bytes = 0;
    for (const auto& sink : sinks) {
        bytes += sink->GetTotalRx();
    }
    std::cout << "packet_hops " << hops << " goodput_bps " << bytes * 8.0 / duration << std::endl;
    Simulator::Destroy();
}
