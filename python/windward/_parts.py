"""Interfaces of parts written in Python. A class needs the methods, not the base class."""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from ._windward import Ack, Loss, Packet, Queue

Verdict = Literal["pass", "mark", "drop"] | None


@runtime_checkable
class Controller(Protocol):
    """Congestion controller: one object for each connection.

    The class is called with a ``ControllerSetup``. Each method gets an event and returns the window after it,
    in packets; below one packet counts as one.

    >>> class Aimd:
    ...     def __init__(self, setup):
    ...         self.cwnd = setup.initial_window
    ...
    ...     def on_ack(self, ack):
    ...         if ack.allows_growth:
    ...             self.cwnd += 1 / self.cwnd
    ...         return self.cwnd
    ...
    ...     def on_congestion(self, congestion):
    ...         self.cwnd = max(2, congestion.path.in_flight * congestion.kept(0.5))
    ...         return self.cwnd
    ...
    ...     def on_reset(self, reset):
    ...         self.cwnd = reset.window_after(self.cwnd)
    ...         return self.cwnd

    Besides ``on_ack`` there may be

    - ``on_congestion(Congestion)``, by default half of the packets in flight;
    - ``on_reset(Reset)`` after a timeout, by default ``on_congestion`` and the window ``reset.window_after``;
    - ``on_error_loss(Path)``, for a loss that is certainly not congestion, by default without effect;
    - ``on_rate_sample(RateSample)``, for the delivery rate, before ``on_ack``; ``on_lost(LostPacket)`` for each
      packet that is lost; ``on_spurious_losses()``, when all losses since the last reduction turn out to have
      arrived; ``on_restart_from_idle(Instant)``, before the first packet after the application had no data. They
      need recovery by packet number: ``ww.evaluate`` and ``with_`` choose it, and otherwise the scenario does,
      ``protocol={"base": "cubic", "recovery": "rack"}``;
    - ``on_packet_size()``, after a change of the size of full packets, which no simulation makes;
    - ``announce(Packet, limited)``, before a data packet leaves: the request to routers that it carries, as
      ``{"kind": "xcp", "rtt": .., "inter_packet": .., "delta": ..}`` or ``{"kind": "estcp"}``, or None for that of the
      feedback. ``limited`` is True if the window is what limits the sender;
    - ``pacing_rate``, an attribute or a method of the class: packets per second after each event, or None for no
      limit but the window;
    - the attributes ``negotiates_ecn = True``, for ECN by default, ``answers_ecn = False``, if marks are no
      congestion, and ``limits_itself``, which is True while the class keeps the rate below that of the path.

    All but the first three return None for no change of the window, or the window. docs/python.md has the order of
    the calls. Times are seconds, and again, as ``now_ps``, ``rtt_ps``, .., whole picoseconds, the unit of the engine.

    Default methods change the window without a call of the object; ``ack.cwnd`` is the current one. A class that
    keeps a window of its own cannot undo a default decrease: the window is held, opens as TCP's does up to what the
    class returns, and a warning says which method is missing. An attribute ``ssthresh`` appears in time series.
    """

    def on_ack(self, ack: Ack) -> float:
        """Returns the window after an ACK, packets."""
        ...


@runtime_checkable
class Discriminator(Protocol):
    """Discriminator of losses: one object for each connection, created with a ``ControllerSetup``.

    Besides ``judge`` there may be ``on_ack(Ack)``, called before ``judge`` for the losses that the ACK
    reveals, and ``opinion(Loss)``, for recovery that asks before there is a loss; it must not change
    any state, and is ``judge`` by default.
    """

    def judge(self, loss: Loss) -> float:
        """Returns the probability that the loss is due to congestion, 0 to 1."""
        ...


@runtime_checkable
class LossModel(Protocol):
    """Loss model of a link: one object for each link, created without arguments.

    An attribute ``loss_rate`` of the class, 0 by default, is the long-term share of packets that it
    destroys, which a configured notifier reports.
    """

    def destroys(self, now: float, packet: Packet, coin: float) -> bool:
        """True if the packet is destroyed. ``coin`` is uniform in 0 to 1, from the seed of the run."""
        ...


@runtime_checkable
class Aqm(Protocol):
    """AQM of a link: one object for each link, created with a ``QueueSetup``.

    Besides ``on_enqueue`` there may be ``on_dequeue(Queue, Packet, waited)``, for a packet that is to
    leave after waiting so many seconds; after a drop it is called for the next packet at once. A mark
    drops a packet whose transport does not support ECN. ``on_rate(rate_bps, share_bps)`` is called with
    the new rate of the link, and the share that the queue may use, when ``Simulation.change_link``
    changes the rate.
    """

    def on_enqueue(self, queue: Queue, packet: Packet) -> Verdict:
        """Decides on an arriving packet. A packet that passes is dropped if it does not fit."""
        ...

