"""upwind in Python, written from its page (docs/protocols/upwind.md), which numbers the rules.

``windward run FILE --set 'flows.G.protocol={ base = "upwind", window = "examples/python/upwind.py:Upwind" }'`` sends
the packets that ``protocol = "upwind"`` sends. Not here: the rest of rule 20, help from routers and L4S marks.
"""

from collections import deque
from math import floor, inf, sqrt

LEAST = 2
MEMORY = 600
CYCLE, TRIPS = 20, 20
SAMPLES = 8
SURE = 4
EMPTY = 0.02
STANDS = 0.4e-3
TOLD = 1 / 30
FEW = 100
FADE = 3000
MOST = 0.35
ASSUMED = 0.1
MOVE, MOVES = 33e-3, 4
HIGHEST = 1.5
SMALL = 6
PAUSE = 10
FULL, STILL = 0.1, 3
FLOOD = 3
TREND = 3
SHRUNK = 0.7
LONG = 0.9
FADES = 0.01
SHORT = 5
DELTA = 0.5
GROWTH = 1
NOISE = 2

UP, DOWN = True, False


class Least:
    """The least value of a time. Older values leave when one comes."""

    def __init__(self):
        self.values = deque()

    def add(self, now, value, span):
        while self.values and self.values[-1][1] >= value:
            self.values.pop()
        self.values.append((now, value))
        while now - self.values[0][0] > span:
            self.values.popleft()
        return self.value

    @property
    def value(self):
        return self.values[0][1]

    def forget(self):
        self.values.clear()

    def __bool__(self):
        return bool(self.values)


class Count:
    """Lost and sent packets, of which the older ones fade."""

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
        self.cwnd = setup.initial_window
        self.S = self.top = self.cwnd
        self.C = inf
        self.mode = "start-up"
        # Definitions.
        self.total = self.trip_end = self.startup_end = 0
        self.trip_lost = self.trip_sent = self.last_trip = 0
        self.srtt = None
        self.cycle = CYCLE
        self.bandwidth = 0.0
        self.rates, self.R0s, self.Rs, self.largest_R = Least(), Least(), Least(), Least()
        self.R0 = self.R = 0.0
        self.m_sum, self.m_rtts, self.m_begin = 0.0, 0, 0.0
        self.m = []
        self.ms, self.bases, self.mean_steps = Least(), Least(), Least()
        self.s = self.J = 0.0
        self.step = self.mean_step = 0.0
        self.last = None
        # Rule 1.
        self.two = deque(maxlen=2)
        self.next_verdict()
        self.Es = Least()
        self.none = self.clear = False
        # Rules 2 and 3.
        self.run, self.floor, self.assumed = Count(), None, False
        self.f = self.f1 = 0.0
        self.sum = [0, 0]
        self.moves, self.mean = 0, None
        self.low = self.high = None
        # Rules 4 to 7.
        self.early, self.free = True, True
        self.credit = 0.0
        self.cut_end, self.was_cut = 0, False
        self.trips = Count()
        self.pause = 0
        # Rules 8 and 9.
        self.last_eight = deque(maxlen=SAMPLES)
        self.start_rtts = Least()
        self.start_up(inf)
        # Rules 10 and 11.
        self.begin_delay(UP)
        # Rules 13 to 17.
        self.longest = 0.0
        self.e, self.p = Count(), Count()
        self.P = 0.0
        self.known = 0.0
        self.flight_end, self.flight = 0, (self.S, self.C, self.known)
        self.since_empty = self.since_short = 0
        self.stays_until = 0.0

    # --- events

    def on_ack(self, ack):
        return self.cwnd

    def on_lost(self, loss):
        now, number = loss.now, loss.number
        self.trip_lost += 1
        self.cause(1, 1)
        self.P = max(0.0, 1 - self.e.rate * self.p.sent / self.p.lost) if self.long else 0.0  # 13
        if number > self.flight_end:  # 14
            self.flight_end = number + floor(self.cwnd)
            self.flight = (self.S, self.C, self.known)
        self.earn(1)
        self.cut(number)
        if self.mode != "start-up":
            self.shadow_loss(now)
        return self.cwnd

    def on_rate_sample(self, sample):
        if sample.rtt is None:
            return None
        ended = self.define(sample)
        now, a = sample.now, sample.newly_acked
        self.hear(sample.rtt)  # 1
        self.earn(a)  # 5
        self.cause(0, a)  # 13
        if ended:
            lost, sent = self.trip_lost, self.trip_sent
            early = self.mode == "start-up" or sample.prior_delivered < self.startup_end  # 4
            self.free = early or self.early
            self.early = early
            if not self.free:  # 6
                self.trips.add(lost, sent)
            self.grow_ceiling()  # 7
            verdict = self.verdict(now, lost, sent)  # 1
            if not self.free:
                self.never_empties(lost, sent)  # 3
                if verdict:
                    self.learn_floor(*verdict)  # 2
            self.last_trip = sent
            self.longer_path(now)  # 11
        self.evidence(ended)  # 16
        if self.mode == "start-up":
            if self.is_full(now, sample, ended):  # 9
                self.end_start_up()
            elif sample.prior_in_flight >= self.cwnd / 2:  # 8
                self.cwnd += a
        elif self.mode == "delay" or self.cwnd >= self.S:  # 17
            self.delay_mode(sample, ended)  # 10
        if self.mode == "delay":
            self.top = max(self.top, self.cwnd)  # 15
            self.S = min(self.S + GROWTH * a / self.S, self.top)
            if ended:
                self.top = max((1 - FADES) * self.top, self.cwnd)
            if ended and (self.since_empty >= TRIPS or self.since_short >= SHORT):  # 17
                self.mode = "competition"
                self.stays_until = now + CYCLE
        elif self.mode == "competition":
            self.compete(now, a)  # 17
            if ended and self.empty:  # 18
                self.end_competition()
        if self.mode != "start-up":  # 12
            self.cwnd = min(self.cwnd, 2 * self.bandwidth * self.srtt + 10)
        self.S = min(self.S, self.C)
        self.cwnd = max(LEAST, min(self.cwnd, self.C))
        if ended:
            self.trip_lost = 0
            self.was_cut = False
        return self.cwnd

    @property
    def pacing_rate(self):
        if self.srtt is None:
            return None
        if self.C < LEAST:  # 12
            return self.C / self.srtt
        gain = 1.5 if self.mode == "start-up" else 1.25
        return max(gain * self.cwnd / self.srtt, self.bandwidth)

    def on_reset(self, reset):  # 19
        self.halve()
        self.start_up(max(self.S, self.cwnd / 2))
        self.cwnd = LEAST
        return self.cwnd

    def on_spurious_losses(self):  # 19
        S, C, self.known = self.flight
        self.S = max(self.S, S)
        self.C = max(self.C, C)

    def on_restart_from_idle(self, instant):  # 19
        self.v = 1

    def on_packet_size(self):  # 19
        self.forget()
        self.Es.forget()
        self.next_verdict()

    def on_congestion(self, congestion):
        if congestion.marked:
            self.on_mark(congestion.path.now)
        return self.cwnd

    def on_mark(self, now):  # 20
        if self.mode == "start-up":
            self.s = 0.0
            self.m = []
            self.end_competition()
        self.C = min(self.C, max(LEAST, min(self.C, self.cwnd) / 2))
        self.cwnd = max(LEAST, min(self.cwnd, self.C))
        self.halve()
        self.known = now + CYCLE
        self.pause = PAUSE
        self.was_cut = True
        self.flight = (self.S, self.C, self.known)

    # --- definitions

    def define(self, sample):
        """Updates what the definitions tell, and returns whether a round trip ends."""
        now, rtt = sample.now, sample.rtt
        self.now = now
        self.total = sample.total_delivered
        ended = sample.prior_delivered >= self.trip_end
        if ended:
            self.trip_sent = self.trip_lost + self.total - self.trip_end
            self.trip_end = self.total
        if self.srtt is None:
            self.srtt = rtt
        else:
            self.srtt += (rtt - self.srtt) / 8
        self.cycle = max(CYCLE, TRIPS * self.srtt)
        self.bandwidth = -self.rates.add(now, -sample.rate, 10 * self.srtt)
        self.R0 = self.R0s.add(now, rtt, max(MEMORY, self.cycle))
        self.R = self.Rs.add(now, rtt, self.srtt / 2)
        self.start_rtts.add(now, rtt, self.srtt / 8)
        self.last_eight.append(rtt)
        if self.last is not None:
            d = now - self.last[0] - (rtt - self.last[1])
            if d <= self.srtt / 8:
                self.step = max(self.step, rtt - self.last[1] - d)
        self.last = (now, rtt)
        self.m_sum += rtt
        self.m_rtts += 1
        if now - self.m_begin >= self.srtt / 4 and self.m_rtts >= SAMPLES / 2:
            self.new_m(now)
        self.longest = -self.largest_R.add(now, -self.R, self.cycle)
        return ended

    def new_m(self, now):
        m = self.m_sum / self.m_rtts
        self.m = [m] + self.m[:3] if self.m else [m] * 4
        self.m_sum, self.m_rtts, self.m_begin = 0.0, 0, now
        m, m1, m2, m3 = self.m
        value = min(abs(m - 2 * m1 + m2) / 1.954, SURE * (self.s + self.R0 / 16))
        self.s += (value - self.s) / 16
        step = min(self.step, SURE * (self.mean_step + self.R0 / 16))
        self.mean_step += (step - self.mean_step) / 64
        self.J = 2 * -self.mean_steps.add(now, -self.mean_step, self.cycle)
        self.step = 0.0
        self.ms.add(now, m, self.srtt / 2)
        self.bases.add(now, (m + m1 + m2 + m3) / 4, self.cycle)

    @property
    def dq(self):
        if not self.bases:
            return 0.0
        base = min(max(self.bases.value, self.R0), 1.1 * self.R0 + SURE * self.s + self.J)
        return max(0.0, self.ms.value - base - NOISE * self.s)

    @property
    def empty(self):
        return self.dq < EMPTY * self.R0

    @property
    def b(self):
        return self.cwnd * self.dq / self.R

    @property
    def b_star(self):
        return max(1 / DELTA, (NOISE * self.s + self.J) * self.cwnd / self.srtt)

    # --- rules

    def hear(self, rtt):  # 1
        x = 0.0
        if len(self.two) == 2:
            x = min(self.R0, abs(rtt - 2 * self.two[1] + self.two[0]))
        self.two.append(rtt)
        self.M_sum += rtt
        self.x2_sum += x * x / 6
        self.M_rtts += 1

    def verdict(self, now, lost, sent):  # 1
        """Returns whether a queue stands for sure, and the packets of the verdict; None without a verdict."""
        self.M_trips += 1
        self.M_lost += lost
        self.M_sent += sent
        M, sd = self.M_sum / self.M_rtts, sqrt(self.x2_sum / self.M_rtts)
        u = max(SURE * sd / sqrt(self.M_rtts), self.s / sqrt(self.M_trips))
        t = min(STANDS, self.R0 / 10)
        if self.M_rtts < SAMPLES or u > max(t, TOLD * self.R0):
            return None
        E = min(self.Es.add(now, M + u, MEMORY), self.R0 + sd + 2 * self.J)
        most = E + max(t, u, self.J)
        none = M <= most
        self.clear = none and self.none
        self.none = none
        found = M > most + sd, self.M_lost, self.M_sent
        self.next_verdict()
        return found

    def next_verdict(self):  # 1
        self.M_sum = self.x2_sum = 0.0
        self.M_rtts = self.M_trips = self.M_lost = self.M_sent = 0

    def learn_floor(self, sure, lost, sent):  # 2
        if sure:
            self.run = Count()
        if self.clear:
            self.run.add(lost, sent)
            if self.run.sent >= FEW:  # 3
                self.sum, self.moves, self.low, self.high = [0, 0], 0, None, None
            if self.floor and not self.assumed:
                self.floor.add(lost, sent)
            elif self.run.sent >= FEW:
                self.floor, self.assumed = Count(self.run.lost, self.run.sent), False
            self.know_floor()

    def know_floor(self):  # 2
        if self.floor:
            most = ASSUMED if self.assumed else MOST
            self.f = min(most, self.floor.rate)
            self.f1 = min(most, self.floor.rate + sqrt(self.floor.lost) / 2 / max(self.floor.sent, FEW))

    def never_empties(self, lost, sent):  # 3
        if self.assumed:
            return
        self.sum[0] += lost
        self.sum[1] += sent
        self.mean = self.srtt if self.mean is None else self.mean + (self.srtt - self.mean) / 8
        self.low = self.mean if self.low is None else min(self.low, self.mean)
        self.high = self.mean if self.high is None else max(self.high, self.mean)
        if self.high - self.low >= MOVE:
            self.moves += 1
            self.low = self.high = self.mean
        if self.moves >= MOVES and self.sum[1] >= (self.floor.sent if self.floor else 0):
            self.floor, self.assumed = Count(*self.sum), True
            self.know_floor()

    def earn(self, packets):  # 5
        self.credit = min(self.credit + self.f * packets, 2 * self.f * max(FEW, self.last_trip))

    def cut(self, number):  # 6
        if self.free or number <= self.cut_end:
            return
        self.credit -= 1
        if self.credit < 0:
            p = (self.trips.lost + 1) / max(self.trips.sent, FEW)
            c = min(1.0, max(0.0, 1 - self.f1 / p))
            self.cut_end = number + floor(min(self.cwnd, self.C))
            self.C = max(LEAST / 4, min(self.C, HIGHEST * self.cwnd) * (1 - c / 2))
            self.credit = 0.0
            self.pause = max(self.pause, floor(PAUSE * c))
            self.was_cut = True

    def grow_ceiling(self):  # 7
        if self.was_cut:
            return
        self.C += min(1, self.C / SMALL)
        self.pause = max(0, self.pause - 1)
        if self.pause == 0 and self.clear:
            self.C += self.C / TRIPS

    def start_up(self, limit):  # 19
        self.mode, self.limit = "start-up", limit
        self.best, self.still = 0.0, 0

    def is_full(self, now, sample, ended):  # 9
        if ended and self.trip_lost >= FLOOD and self.trip_lost > MOST * self.trip_sent:
            return True
        if ended and sample.prior_in_flight >= self.cwnd / 2:
            if self.bandwidth >= (1 + FULL) * self.best:
                self.best, self.still = self.bandwidth, 0
            else:
                self.still += 1
        if self.still >= STILL or self.cwnd >= self.limit:
            return True
        D = self.R0
        if len(self.last_eight) == SAMPLES:
            D = max(D, min(self.start_rtts.value, min(self.last_eight)))
        return self.cwnd * (D - self.R0) / D > max(self.b_star, FULL * self.cwnd)

    def end_start_up(self):  # 9
        self.cwnd = min(self.cwnd, self.bandwidth * self.R0 + 1)
        self.S = self.top = self.cwnd
        self.known = 0.0
        self.since_empty = self.since_short = 0
        self.s = 0.0
        self.m = []
        self.mode = "delay"
        self.begin_delay(UP, self.total)

    def begin_delay(self, direction, startup_end=0):  # 10
        self.direction, self.v, self.count, self.cwnd_at_end = direction, 1, 0, self.cwnd
        self.startup_end, self.jump = startup_end, None

    def delay_mode(self, sample, ended):  # 10
        if ended:
            direction = self.cwnd >= self.cwnd_at_end
            if direction == self.direction:
                self.count += 1
                faster = 2 if self.count >= TREND else 1
                self.v = min(faster * self.v, max(1, DELTA * self.cwnd / 2))
            else:
                self.v, self.count, self.direction = 1, 0, direction
            self.cwnd_at_end = self.cwnd
        if sample.prior_delivered < self.startup_end:
            return
        b, b_star = self.b, self.b_star
        side = b <= b_star
        if side == UP and sample.is_app_limited:
            return
        if side != self.direction:
            self.v = 1
        if side == UP:
            self.cwnd += self.v / (DELTA * self.cwnd) * sample.newly_acked
        else:
            self.cwnd -= max(self.v / DELTA, (b - b_star) / 2) / self.cwnd * sample.newly_acked

    def forget(self):
        self.R0s.forget()
        self.bases.forget()
        self.R0 = 0.0

    def longer_path(self, now):  # 11
        if self.mode == "start-up":
            return
        known = now < self.known
        if self.jump and (known or abs(self.dq - self.jump[0]) > (1 - SHRUNK) * self.jump[0]):
            self.jump = None
        if self.jump is None:
            if known or self.b < SURE * self.b_star:
                return
            self.jump = (self.dq, self.cwnd, self.cwnd)
        dq, least, largest = self.jump
        least, largest = min(least, self.cwnd), max(largest, self.cwnd)
        self.jump = (dq, least, largest)
        if least <= SHRUNK * largest:
            self.cwnd = largest
            self.begin_delay(DOWN)
            self.forget()

    @property
    def long(self):  # 13
        return self.R - self.R0 >= LONG * (self.longest - self.R0)

    def cause(self, lost, sent):  # 13
        share = min(1.0, sent / FADE)
        self.e.fade(share)
        self.p.fade(share)
        count = self.p if self.long else self.e
        count.lost += lost
        count.sent += sent

    def shadow_loss(self, now):  # 15
        before = self.S
        self.S = min(before, max(before * (1 - self.P / 2), self.flight[0] / 2, LEAST))
        if self.mode == "competition":
            self.cwnd = max(self.cwnd - (before - self.S), self.S)
        if self.P > 0 and not self.free:
            self.known = max(self.known, now + CYCLE)

    def halve(self):
        self.S = max(self.S / 2, min(LEAST, self.S))

    def evidence(self, ended):  # 16
        if ended:
            self.since_empty += 1
            self.since_short += 1
        if self.empty:
            self.since_empty = self.since_short = 0
        elif self.b < self.b_star:
            self.since_short = 0

    def end_competition(self):  # 18
        self.mode = "delay"
        self.begin_delay(DOWN)
        self.top = self.cwnd
        self.since_empty = self.since_short = 0

    def compete(self, now, a):  # 17
        if now < self.known:
            self.S += GROWTH * a / self.S
        elif now >= self.stays_until:
            self.S = max(LEAST, self.S - FADES * a)
        if self.cwnd < self.S:
            self.cwnd = min(self.cwnd + a / 2, self.S)
