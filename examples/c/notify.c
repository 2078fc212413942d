/* A controller in the shape of QUIC stacks in C, such as picoquic: a table of an algorithm with
 * `init`, `notify` and `delete`, which sets the window of the path in `notify` by the kind of event.
 * What follows the line is the adapter for `windward evaluate`; what precedes it is the algorithm.
 */
#include <stdint.h>
#include <stdlib.h>
#include <windward_controller.h>

enum notification { ACKNOWLEDGED, REPEAT, TIMEOUT, ECN_CE };

struct path {
    uint64_t cwin, send_mtu, bytes_in_transit, smoothed_rtt_us, pacing_rate;
    void *congestion_state;
};

struct algorithm {
    const char *id;
    void (*init)(struct path *);
    void (*notify)(struct path *, enum notification, uint64_t bytes, uint64_t now_us);
    void (*delete)(struct path *);
};

/* NewReno with the shape of that interface: RFC 9002 section 7. */
struct newreno { uint64_t ssthresh, residual; };

static void newreno_init(struct path *path) {
    struct newreno *state = malloc(sizeof *state);
    state->ssthresh = UINT64_MAX, state->residual = 0;
    path->congestion_state = state;
}

static void newreno_notify(struct path *path, enum notification kind, uint64_t bytes, uint64_t now_us) {
    struct newreno *state = path->congestion_state;
    uint64_t least = 2 * path->send_mtu;
    (void)now_us;
    switch (kind) {
    case ACKNOWLEDGED:
        if (path->cwin < state->ssthresh) {
            path->cwin += bytes;
            break;
        }
        state->residual += bytes * path->send_mtu;
        path->cwin += state->residual / path->cwin;
        state->residual %= path->cwin;
        break;
    case REPEAT:
    case ECN_CE:
        state->ssthresh = path->cwin / 2 > least ? path->cwin / 2 : least;
        path->cwin = state->ssthresh, state->residual = 0;
        break;
    case TIMEOUT:
        state->ssthresh = path->cwin / 2 > least ? path->cwin / 2 : least;
        path->cwin = least, state->residual = 0;
        break;
    }
    /* As such stacks do it: five quarters of a window per round trip. */
    if (path->smoothed_rtt_us > 0) path->pacing_rate = 1250000 * path->cwin / path->smoothed_rtt_us;
}

static void newreno_delete(struct path *path) { free(path->congestion_state); }

static const struct algorithm algorithm = { "newreno-notify", newreno_init, newreno_notify, newreno_delete };

/* ---------------------------------- The adapter, the same for any algorithm of that shape. */

static void *create(const struct windward_setup *setup) {
    struct path *path = calloc(1, sizeof *path);
    path->send_mtu = setup->packet_size, path->cwin = setup->initial_window;
    algorithm.init(path);
    return path;
}

static void on_ack(void *state, const struct windward_ack *ack) {
    struct path *path = state;
    path->bytes_in_transit = ack->in_flight_bytes, path->smoothed_rtt_us = ack->srtt_ns / 1000;
    if (ack->growth_bytes > 0) algorithm.notify(path, ACKNOWLEDGED, ack->growth_bytes, ack->now_ns / 1000);
}

static void on_loss(void *state, const struct windward_loss *loss) {
    algorithm.notify(state, loss->marked ? ECN_CE : REPEAT, 0, loss->now_ns / 1000);
}

static void on_timeout(void *state, const struct windward_timeout *timeout) {
    if (!timeout->repeated) algorithm.notify(state, TIMEOUT, 0, timeout->now_ns / 1000);
}

static double cwnd(void *state) { return (double)((struct path *)state)->cwin; }
static double pacing_rate(void *state) { return (double)((struct path *)state)->pacing_rate; }

static void destroy(void *state) {
    algorithm.delete(state);
    free(state);
}

const struct windward_controller windward_controller = {
    .version = WINDWARD_CONTROLLER_VERSION, .size = sizeof(struct windward_controller),
    .name = "newreno-notify", .description = "NewReno behind the interface of a QUIC stack in C",
    .create = create, .on_ack = on_ack, .on_loss = on_loss, .on_timeout = on_timeout,
    .cwnd = cwnd, .pacing_rate = pacing_rate, .destroy = destroy,
};
