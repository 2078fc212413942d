"""upwind in Python, written from its page, docs/protocols/upwind.md: the numbers are those of its rules.

``windward run FILE --set 'flows.G.protocol={ base = "upwind", window = "examples/python/upwind.py:Upwind" }'`` sends
the packets that ``protocol = "upwind"`` sends, where no router helps (the rest of rule 20).
"""

from collections import deque
from math import floor, inf, pi, sqrt

# Constants, and the defaults of the parameters.
LEAST, MEMORY, CYCLE, TRIPS, SAMPLES, SURE = 2, 600, 20, 20, 8, 4
EMPTY, STANDS, TOLD, FEW, FADE, MOST, EARLY, FALLEN = 0.02, 0.4e-3, 1 / 30, 100, 3000, 0.35, 0.1, 0.9
MOVE, MOVES, HIGHEST, SMALL, PAUSE, FULL, STILL = 33e-3, 4, 1.5, 6, 10, 0.1, 3
FLOOD, TREND, SHRUNK, LONG, FILLED, FADES = 5, 3, 0.7, 0.9, 5, 0.01
DELTA, GROWTH, NOISE = 0.5, 1, 2
UP, DOWN = True, False


class Least:
    """The least value of a time."""

    def __init__(self):
        self.values = deque()

    def add(self, now, value, span):
        while self.values and self.values[-1][1] >= value:
            self.values.pop()
        self.values.append((now, value))
        while now - self.values[0][0] > span:
            self.values.popleft()
        return self.least

    @property
    def least(self):
        return self.values[0][1] if self.values else 0.0


class Largest(Least):
    """The largest value of a time."""

    def add(self, now, value, span):
        return -super().add(now, -value, span)


class Count:
    """Lost and sent packets, of which older ones fade."""

    def __init__(self, lost=0.0, sent=0.0):
        self.lost, self.sent = lost, sent

    def fade(self, share):
        self.lost *= 1 - share
        self.sent *= 1 - share

    def add(self, lost, sent):
        self.fade(min(sent / FADE, 1 / TRIPS))
        self.lost += lost
        self.sent += sent

    @property
    def rate(self):
        return self.lost / max(self.sent, FEW)


class Upwind:
    """Responds to delay, competes by a shadow window, and ignores corruption losses."""

    negotiates_ecn = True

    def __init__(self, setup):
        self.cwnd = self.S = self.top = setup.initial_window
        self.C = inf
        self.start_up(inf)
        # Round trips: packets delivered at the last end, and lost since; lost and sent in the last one.
        self.end_total = self.lost_since = self.lost = self.sent = self.last_trip = 0
        # Definitions. The last four m, the latest first.
        self.srtt = self.R0 = self.R = self.bandwidth = self.s = self.J = 0.0
        self.R0s, self.Rs, self.D_rtts, self.rates, self.longest_Rs = Least(), Least(), Least(), Largest(), Largest()
        self.rtts = deque(maxlen=SAMPLES)
        self.m, self.ms, self.bases = [], Least(), Least()
        self.m_sum, self.m_rtts, self.m_began, self.sample_time = 0.0, 0, 0.0, 0.0
        self.step, self.mean_step, self.mean_steps = 0.0, 0.0, Largest()
        # Rules 1 to 3.
        self.next_verdict()
        self.Es, self.saw_none, self.clear = Least(), False, False
        self.without, self.assumed = Count(), None  # those without a queue, and the assumed floor
        self.early, self.early_trips, self.early_R0 = Count(), 0, inf  # those of start-up, for so many round trips
        self.begin_sum()
        # Rules 4 to 7.
        self.startup_end, self.starting, self.free = 0, True, True
        self.credit, self.recent, self.cut_end, self.was_cut, self.pause = 0.0, Count(), 0, False, 0
        # Rules 10 to 17.
        self.begin(UP)
        self.longest, self.e, self.p = 0.0, Count(), Count()
        self.known_until, self.stays_until = 0.0, 0.0
        self.flight_end, self.flight = 0, (self.S, self.C, self.known_until)
        self.begin_counts()

    # Events, in the page's order.

    def on_lost(self, loss):
        self.lost_since += 1
        self.count_cause(1, 1)  # 13
        P = max(0.0, 1 - self.e.rate * self.p.sent / self.p.lost) if self.is_long else 0.0
        if loss.number > self.flight_end:  # 14
            self.flight_end = loss.number + floor(self.cwnd)
            self.flight = (self.S, self.C, self.known_until)
        self.add_credit(1)  # 5
        self.cut(loss.number)  # 6
        if self.mode != "start-up":
            self.reduce_shadow(P, loss.now)  # 15
        return self.cwnd

    def on_rate_sample(self, sample):
        if sample.rtt is None:
            return None
        now, a = sample.now, sample.newly_acked
        ended = self.measure(sample)
        self.add_rtt(sample.rtt)  # 1
        self.add_credit(a)  # 5
        self.count_cause(0, a)  # 13
        if ended:
            self.end_round_trip(sample)  # 4, 7, 1, 3, 2, 11
        self.count_round_trips(ended)  # 16
        if self.mode == "start-up":
            if self.is_full(sample, ended):  # 9
                self.end_start_up(sample.total_delivered)
            elif sample.prior_in_flight >= self.cwnd / 2:  # 8: the window doubles
                self.cwnd += a
        elif self.mode == "delay" or self.cwnd >= self.S:  # 17: at cwnd >= S rule 10 acts first
            self.follow_delay(sample, ended)  # 10
        if self.mode == "delay":
            self.grow_shadow(a, ended)  # 15
            if ended and self.others_fill(now):  # 17
                self.mode, self.stays_until = "competition", now + CYCLE
        elif self.mode == "competition":
            self.compete(now, a)  # 17
            if ended and self.is_empty:  # 18
                self.end_competition(now)
        if self.mode != "start-up":  # 12
            self.cwnd = min(self.cwnd, 2 * self.bandwidth * self.srtt + 10)
        self.S = min(self.S, self.C)
        self.cwnd = max(LEAST, min(self.cwnd, self.C))
        return self.cwnd

    def on_ack(self, ack):
        return self.cwnd

    @property
    def pacing_rate(self):  # 12
        if self.srtt == 0:
            return None
        if self.C < LEAST:
            return self.C / self.srtt
        g = 1.5 if self.mode == "start-up" else 1.25
        return max(g * self.cwnd / self.srtt, self.bandwidth)

    def on_reset(self, reset):  # 19
        self.halve_shadow()
        self.start_up(max(self.S, self.cwnd / 2))
        self.cwnd = LEAST
        return self.cwnd

    def on_spurious_losses(self):  # 19
        S, C, self.known_until = self.flight
        self.S, self.C = max(self.S, S), max(self.C, C)

    def on_restart_from_idle(self, instant):  # 19
        self.v = 1

    def on_packet_size(self):  # 19
        self.forget_path()
        self.Es = Least()
        self.next_verdict()

    def on_congestion(self, congestion):
        if congestion.marked:
            self.on_mark(congestion.path.now)
        return self.cwnd

    def on_mark(self, now):  # 20
        if self.mode == "start-up":
            self.end_competition(now)
            self.s, self.m, self.startup_end = 0.0, [], 0
        self.C = min(self.C, max(LEAST, min(self.C, self.cwnd) / 2))
        self.cwnd = max(LEAST, min(self.cwnd, self.C))
        self.halve_shadow()
        self.known_until = max(self.known_until, now + CYCLE)
        self.pause, self.was_cut = PAUSE, True
        self.flight = (self.S, self.C, self.known_until)

    # Definitions.

    def measure(self, sample):
        """Updates the definitions, and returns whether a round trip ends."""
        now, rtt = sample.now, sample.rtt
        self.srtt += (rtt - self.srtt) / 8 if self.srtt else rtt
        self.cycle = max(CYCLE, TRIPS * self.srtt)
        self.bandwidth = self.rates.add(now, sample.rate, 10 * self.srtt)
        self.R0 = self.R0s.add(now, rtt, max(MEMORY, self.cycle))
        self.R = self.Rs.add(now, rtt, self.srtt / 2)
        self.D_rtts.add(now, rtt, self.srtt / 8)
        if self.rtts:
            d = now - self.sample_time - (rtt - self.rtts[-1])
            if d <= self.srtt / 8:
                self.step = max(self.step, rtt - self.rtts[-1] - d)
        self.rtts.append(rtt)
        self.sample_time = now
        self.m_sum += rtt
        self.m_rtts += 1
        if now - self.m_began >= self.srtt / 4 and self.m_rtts >= SAMPLES / 2:
            self.end_mean(now)
        self.longest = self.longest_Rs.add(now, self.R, self.cycle)
        if sample.prior_delivered < self.end_total:
            return False
        self.lost, self.lost_since = self.lost_since, 0
        self.sent = self.lost + sample.total_delivered - self.end_total
        self.end_total = sample.total_delivered
        return True

    def end_mean(self, now):
        mean = self.m_sum / self.m_rtts
        m, m1, m2, m3 = self.m = [mean, *self.m[:3]] if self.m else [mean] * 4
        self.m_sum, self.m_rtts, self.m_began = 0.0, 0, now
        value = min(abs(m - 2 * m1 + m2) / 1.954, SURE * (self.s + self.R0 / 16))
        self.s += (value - self.s) / 16
        step = min(self.step, SURE * (self.mean_step + self.R0 / 16))
        self.mean_step += (step - self.mean_step) / 64
        self.J = 2 * self.mean_steps.add(now, self.mean_step, self.cycle)
        self.step = 0.0
        self.ms.add(now, m, self.srtt / 2)
        self.bases.add(now, (m + m1 + m2 + m3) / 4, self.cycle)

    @property
    def dq(self):
        if not self.bases.values:
            return 0.0
        base = min(max(self.bases.least, self.R0), 1.1 * self.R0 + SURE * self.s + self.J)
        return max(0.0, self.ms.least - base - NOISE * self.s)

    @property
    def is_empty(self):
        return self.dq < EMPTY * self.R0

    @property
    def b(self):
        return self.cwnd * self.dq / self.R

    @property
    def b_star(self):
        return max(1 / DELTA, (NOISE * self.s + self.J) * self.cwnd / self.srtt)

    def forget_path(self):
        self.R0s, self.R0, self.bases = Least(), 0.0, Least()

    # Rules, in the order of their numbers.

    def add_rtt(self, rtt):  # 1
        x = 0.0
        if len(self.rtts) >= 3:
            x = min(self.R0, abs(rtt - 2 * self.rtts[-2] + self.rtts[-3]))
        self.M_sum += rtt
        self.x_sum += x * x / 6
        self.M_rtts += 1

    def next_verdict(self):  # 1
        self.M_sum, self.x_sum, self.M_rtts, self.M_trips, self.M_lost, self.M_sent = 0.0, 0.0, 0, 0, 0, 0

    def end_round_trip(self, sample):
        starting = self.mode == "start-up" or sample.prior_delivered < self.startup_end  # 4
        self.free, self.starting = starting or self.starting, starting
        self.last_trip = self.sent  # 5
        if not self.free:  # 6
            self.recent.add(self.lost, self.sent)
        self.grow_ceiling()  # 7
        without = self.find_verdict(sample.now)  # 1
        if self.mode == "start-up" and not self.floods:  # 2
            self.begin_early()
            self.early.add(self.lost, self.sent)
            self.early_trips = TRIPS
        if not self.free:
            self.begin_early()
            self.early_trips = max(0, self.early_trips - 1)
            self.assume_floor()  # 3
            if without:
                self.learn_floor(*without)  # 2
        if self.mode != "start-up":
            self.find_longer_path(sample.now)  # 11

    def find_verdict(self, now):  # 1
        """Returns the packets of the round trips judged, if the queue is clear."""
        self.M_trips += 1
        self.M_lost += self.lost
        self.M_sent += self.sent
        sd = sqrt(self.x_sum / self.M_rtts)
        u = max(SURE * sd / sqrt(self.M_rtts), self.s / sqrt(self.M_trips))
        t = min(STANDS, self.R0 / 10)
        if self.M_rtts < SAMPLES or u > max(t, TOLD * self.R0):
            if self.M_trips >= TRIPS:
                self.next_verdict()
            return None
        M = self.M_sum / self.M_rtts
        E = min(self.Es.add(now, M + u, MEMORY), self.R0 + sd + 2 * self.J)
        H = max(0.0, self.J - sqrt(pi * self.J / (self.M_sent / (self.M_trips * self.srtt))))
        packets, saw_none = (self.M_lost, self.M_sent), M <= E + max(t, u, H)
        self.clear, self.saw_none = self.saw_none and saw_none, saw_none
        self.next_verdict()
        return packets if self.clear else None

    def learn_floor(self, lost, sent):  # 2
        self.without.add(lost, sent)
        if self.without.sent >= FEW:
            self.assumed = None
            self.begin_sum()

    def begin_early(self):  # 2
        if self.R0 <= FALLEN * self.early_R0:
            self.early, self.early_R0 = Count(), self.R0

    def begin_sum(self):  # 3
        self.sum_lost, self.sum_sent, self.mean, self.moves, self.range = 0, 0, 0.0, 0, None

    @property
    def told(self):  # 2, 3
        """The count that stands for the floor, and the largest rate for which it does."""
        count = self.assumed or (self.without if self.without.sent >= FEW else Count())
        return (self.early, EARLY) if self.early_trips and self.early.sent > count.sent else (count, MOST)

    @property
    def f(self):  # 2
        count, most = self.told
        return min(most, count.rate)

    @property
    def f_prime(self):  # 2
        count, most = self.told
        return min(most, count.rate + sqrt(count.lost) / 2 / max(count.sent, FEW))

    def assume_floor(self):  # 3
        if self.assumed:
            return
        self.sum_lost, self.sum_sent = self.sum_lost + self.lost, self.sum_sent + self.sent
        self.mean += (self.srtt - self.mean) / 8 if self.mean else self.srtt
        low, high = self.range or (self.mean, self.mean)
        self.range = min(low, self.mean), max(high, self.mean)
        if self.range[1] - self.range[0] >= MOVE:
            self.moves, self.range = self.moves + 1, (self.mean, self.mean)
        if self.moves >= MOVES:
            self.assumed = Count(self.sum_lost, self.sum_sent)

    def add_credit(self, packets):  # 5
        f = self.f
        self.credit = min(self.credit + f * packets, 2 * f * max(FEW, self.last_trip))

    def cut(self, number):  # 6
        if self.free or number <= self.cut_end:
            return
        self.credit -= 1
        if self.credit < 0:
            p = (self.recent.lost + 1) / max(self.recent.sent, FEW)
            c = min(1.0, max(0.0, 1 - self.f_prime / p))
            self.cut_end, self.was_cut = number + floor(min(self.cwnd, self.C)), True
            self.C = max(LEAST / 4, min(self.C, HIGHEST * self.cwnd) * (1 - c / 2))
            self.credit = 0.0
            self.pause = max(self.pause, floor(PAUSE * c))

    def grow_ceiling(self):  # 7
        was_cut, self.was_cut = self.was_cut, False
        if not was_cut:
            self.C += min(1, self.C / SMALL)
            self.pause = max(0, self.pause - 1)
            if self.pause == 0 and self.clear:
                self.C += self.C / TRIPS

    def start_up(self, limit):  # 8, 9, 19
        self.mode, self.limit, self.raised, self.still = "start-up", limit, 0.0, 0

    @property
    def floods(self):  # 9
        return self.lost >= FLOOD and self.lost > MOST * self.sent

    def is_full(self, sample, ended):  # 9
        if ended and sample.prior_in_flight >= self.cwnd / 2:
            self.still += 1
            if self.bandwidth >= (1 + FULL) * self.raised:
                self.raised, self.still = self.bandwidth, 0
        D = self.R0
        if len(self.rtts) == SAMPLES:
            D = max(D, min(self.D_rtts.least, *self.rtts))
        queues = self.cwnd * (D - self.R0) / D > max(self.b_star, FULL * self.cwnd)
        return ended and self.floods or self.still >= STILL or queues or self.cwnd >= self.limit

    def end_start_up(self, total):  # 9
        self.cwnd = self.S = self.top = min(self.cwnd, self.bandwidth * self.R0 + 1)
        self.known_until, self.s, self.m = 0.0, 0.0, []
        self.begin_counts()
        self.mode, self.startup_end = "delay", total
        self.begin(UP)

    def begin(self, direction):  # 10
        self.direction, self.v, self.count, self.cwnd_at_end, self.jump = direction, 1, 0, self.cwnd, None

    def follow_delay(self, sample, ended):  # 10
        if ended:
            direction = self.cwnd >= self.cwnd_at_end
            if direction == self.direction:
                self.count += 1
                faster = 2 if self.count >= TREND else 1
                self.v = min(faster * self.v, max(1, DELTA * self.cwnd / 2))
            else:
                self.direction, self.v, self.count = direction, 1, 0
            self.cwnd_at_end = self.cwnd
        b, b_star = self.b, self.b_star
        side = b <= b_star
        if sample.prior_delivered < self.startup_end or (side == UP and sample.is_app_limited):
            return
        if side != self.direction:
            self.v = 1
        if side == UP:
            self.cwnd += self.v / (DELTA * self.cwnd) * sample.newly_acked
        else:
            self.cwnd -= max(self.v / DELTA, (b - b_star) / 2) / self.cwnd * sample.newly_acked

    def find_longer_path(self, now):  # 11
        if self.jump:
            dq, least, largest = self.jump
            if self.is_known(now) or abs(self.dq - dq) > (1 - SHRUNK) * dq:
                self.jump = None
            else:
                self.jump = dq, min(least, self.cwnd), max(largest, self.cwnd)
        if not self.jump and not self.is_known(now) and self.b >= SURE * self.b_star:
            self.jump = self.dq, self.cwnd, self.cwnd
        if self.jump and self.jump[1] <= SHRUNK * self.jump[2]:
            self.cwnd = self.jump[2]
            self.forget_path()
            self.begin(DOWN)

    @property
    def is_long(self):  # 13
        return self.R - self.R0 >= LONG * (self.longest - self.R0)

    def count_cause(self, lost, sent):  # 13
        for count in (self.e, self.p):
            count.fade(min(1.0, sent / FADE))
        count = self.p if self.is_long else self.e
        count.lost += lost
        count.sent += sent

    def reduce_shadow(self, P, now):  # 15
        before = self.S
        self.S = min(before, max(before * (1 - P / 2), self.flight[0] / 2, LEAST))
        if self.mode == "competition":
            self.cwnd = max(self.cwnd - (before - self.S), min(self.cwnd, self.S))
        if P > 0 and not self.free:
            self.known_until = max(self.known_until, now + CYCLE)

    def halve_shadow(self):  # 19, 20
        self.S = max(self.S / 2, min(LEAST, self.S))

    def is_known(self, now):  # 15
        return now < self.known_until

    def grow_shadow(self, a, ended):  # 15
        self.top = max(self.top, self.cwnd)
        self.S = min(self.S + GROWTH * a / self.S, self.top)
        if ended:
            self.top = max((1 - FADES) * self.top, self.cwnd)

    def begin_counts(self):  # 16
        self.empty, self.short, self.long = 0, 0, 0

    def count_round_trips(self, ended):  # 16
        self.empty = 0 if self.is_empty else self.empty + ended
        self.short = 0 if self.b < self.b_star else self.short + ended
        self.long = 0 if self.is_long else self.long + ended

    def others_fill(self, now):  # 17
        return self.empty >= TRIPS or self.is_known(now) and min(self.empty, self.short) >= FILLED

    def compete(self, now, a):  # 17
        if self.is_known(now):
            self.S += GROWTH * a / self.S
        elif now >= self.stays_until:
            self.S = max(LEAST, self.S - FADES * a)
        if self.cwnd < self.S:
            self.cwnd = min(self.cwnd + a / 2, self.S)

    def end_competition(self, now):  # 18
        if self.long <= FILLED:
            self.known_until = max(self.known_until, now + CYCLE)
        self.mode, self.top = "delay", self.cwnd
        self.begin_counts()
        self.begin(DOWN)
