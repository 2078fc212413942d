"""Congestion controllers to be evaluated: ``windward evaluate examples/python/controllers.py:Careful``."""

import windward as ww


class Careful:
    """Reno that reduces by a quarter, and stops growing once a quarter of its RTT is queueing delay."""

    def __init__(self, setup):
        self.cwnd = setup.initial_window
        self.ssthresh = float("inf")

    def on_ack(self, ack):
        if ack.allows_growth and ack.rtt < 1.25 * ack.min_rtt:
            in_slow_start = self.cwnd < self.ssthresh
            self.cwnd += ack.growth if in_slow_start else ack.growth / self.cwnd
        return self.cwnd

    def on_congestion(self, congestion):
        self.ssthresh = self.cwnd = max(2, congestion.path.in_flight * congestion.kept(0.75))
        return self.cwnd

    def on_reset(self, reset):
        if not reset.repeated:
            self.ssthresh = max(2, reset.path.in_flight * reset.kept(0.5))
        self.cwnd = reset.window_after(self.cwnd)
        return self.cwnd


mild = ww.controller(on_ack="cwnd + growth / cwnd", on_loss="0.7 * in_flight", name="mild")
