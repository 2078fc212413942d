/* SPDX-License-Identifier: MIT OR GPL-2.0
 *
 * Gives the controller to the connections of a control group: those that begin there, and those that
 * arrive at a port on which a program of the group listens.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Settings of the loader: the local port of these connections, 0 for all; the name of the controller. */
const volatile struct {
	__u32 port;
	char name[16];
} settings = { 0, "windward" };

/* include/uapi/linux/bpf.h */
struct bpf_sock_ops {
	__u32 op;
	__u32 args[4];
	__u32 family;
	__u32 remote_ip4, local_ip4;
	__u32 remote_ip6[4], local_ip6[4];
	__u32 remote_port, local_port;
};

enum { CONNECT = 3, PASSIVE_ESTABLISHED = 5, LISTEN = 11 };
enum { IPPROTO_TCP = 6, TCP_CONGESTION = 13 };

SEC("sockops")
int choose(struct bpf_sock_ops *ops)
{
	char name[16];

	if (ops->op != CONNECT && ops->op != LISTEN && ops->op != PASSIVE_ESTABLISHED)
		return 1;
	if (settings.port && ops->local_port != settings.port)
		return 1;
#pragma unroll
	for (int i = 0; i < (int)sizeof(name); i++)
		name[i] = settings.name[i];
	bpf_setsockopt(ops, IPPROTO_TCP, TCP_CONGESTION, name, sizeof(name));
	return 1;
}
