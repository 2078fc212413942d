/* AIMD(1, 0.7) for `windward evaluate`:
 *
 *     cc -O2 -shared -fPIC -I include aimd.c -o libaimd.so
 *     windward evaluate ./libaimd.so --only high-loss
 */
#include <stdlib.h>
#include <windward_controller.h>

struct aimd { double packet, window, threshold; };

static void *create(const struct windward_setup *setup) {
    struct aimd *a = malloc(sizeof *a);
    a->packet = setup->packet_size, a->window = setup->initial_window, a->threshold = 1e18;
    return a;
}

static void on_ack(void *state, const struct windward_ack *ack) {
    struct aimd *a = state;
    double growth = ack->growth_bytes, rest = a->threshold - a->window;
    if (rest > 0) { /* Slow start (RFC 5681), and the rest beyond the threshold for below. */
        a->window += growth < rest ? growth : rest;
        growth = growth > rest ? growth - rest : 0;
    }
    a->window += a->packet * growth / a->window;
}

static void on_loss(void *state, const struct windward_loss *loss) {
    struct aimd *a = state;
    (void)loss;
    a->window *= 0.7;
    if (a->window < 2 * a->packet) a->window = 2 * a->packet;
    a->threshold = a->window;
}

static void on_timeout(void *state, const struct windward_timeout *timeout) {
    struct aimd *a = state;
    if (!timeout->repeated) on_loss(state, 0);
    a->window = timeout->restart_window;
}

static double cwnd(void *state) { return ((struct aimd *)state)->window; }

const struct windward_controller windward_controller = {
    .version = WINDWARD_CONTROLLER_VERSION, .size = sizeof(struct windward_controller),
    .name = "aimd-c", .description = "one packet more a round trip, 0.7 on congestion",
    .create = create, .on_ack = on_ack, .on_loss = on_loss, .on_timeout = on_timeout,
    .cwnd = cwnd, .destroy = free,
};
