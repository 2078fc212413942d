/** Picture of the bottleneck at an instant: packets in its queue, and on its wire. */

import { colors } from "./charts.ts";
import type { Result } from "./messages.ts";
import { isDark } from "./plot.ts";

const HEIGHT = 84;

/** The first departure after an instant. */
function after(packets: Float64Array, time: number): number {
    let [low, high] = [0, packets.length / 3];
    while (low < high) {
        const middle = (low + high) >> 1;
        if (packets[3 * middle] <= time) low = middle + 1;
        else high = middle;
    }
    return low;
}

export class LinkPicture {
    readonly #canvas = document.createElement("canvas");
    readonly #words = document.createElement("p");
    #result: Result | null = null;
    #packets: Float64Array = new Float64Array(0);
    #colors: string[] = [];

    constructor(host: HTMLElement) {
        this.#canvas.setAttribute("role", "img");
        // An image has a name before its first drawing too.
        this.#canvas.setAttribute("aria-label", "The bottleneck");
        this.#words.className = "at";
        host.append(this.#canvas, this.#words);
    }

    show(result: Result, packets: Float64Array) {
        this.#result = result;
        this.#packets = packets;
        this.#colors = colors(result);
    }

    /** True if there are packets to draw. */
    get isReady() {
        return this.#packets.length > 0;
    }

    draw(time: number) {
        const result = this.#result;
        const width = this.#canvas.parentElement!.clientWidth;
        if (!result || width === 0) return;
        const ratio = devicePixelRatio;
        if (this.#canvas.width !== width * ratio) {
            this.#canvas.width = width * ratio;
            this.#canvas.height = HEIGHT * ratio;
            this.#canvas.style.width = `${width}px`;
            this.#canvas.style.height = `${HEIGHT}px`;
        }
        const draw = this.#canvas.getContext("2d")!;
        draw.setTransform(ratio, 0, 0, ratio, 0, 0);
        draw.clearRect(0, 0, width, HEIGHT);
        const { facts } = result;
        const link = facts.links[facts.groups[0].bottleneck];
        const packets = this.#packets;
        const paint = (at: number) => this.#colors[facts.group_of[packets[3 * at + 1]] ?? 0] ?? "#888";
        const ink = isDark() ? "#a7acb5" : "#5b6068";
        const [top, bottom, door] = [16, HEIGHT - 24, Math.round(width * 0.42)];
        draw.fillStyle = isDark() ? "#1b1e24" : "#f1f3f5";
        draw.fillRect(0, top, door - 6, bottom - top);
        draw.fillRect(door + 6, top + 10, width - door - 6, bottom - top - 20);

        // The queue: the packets that leave next, as many as wait at the sample before.
        const sample = Math.min(result.times.length - 1, Math.floor((time / facts.duration_s) * result.times.length));
        const waiting = result.queue[Math.max(0, sample)] ?? 0;
        const limit = link.queue_packets ?? Math.max(1, ...result.queue);
        const rows = Math.max(1, Math.min(4, Math.ceil(limit / 60)));
        const step = (door - 12) / Math.ceil(Math.max(limit, 1) / rows);
        const tall = (bottom - top) / rows;
        let drawn = 0;
        const next = after(packets, time);
        for (let at = next; drawn < waiting && 3 * at < packets.length; at += 1) {
            if (packets[3 * at + 2] === 2) continue;
            draw.fillStyle = paint(at);
            const x = door - 8 - step * (Math.floor(drawn / rows) + 1);
            draw.fillRect(x, top + 1 + tall * (drawn % rows), Math.max(step - 1, 0.6), Math.max(tall - 2, 1));
            drawn += 1;
        }
        // The wire: packets that left within the propagation delay.
        const span = Math.max(link.delay_s, 1e-4);
        let [lost, under] = [0, 0];
        for (let at = next - 1; at >= 0 && packets[3 * at] > time - span; at -= 1) {
            const fate = packets[3 * at + 2];
            const x = door + 8 + ((time - packets[3 * at]) / span) * (width - door - 16);
            if (fate === 2) continue;
            under += 1;
            const middle = (top + bottom) / 2;
            if (fate === 1) {
                lost += 1;
                draw.strokeStyle = paint(at);
                draw.lineWidth = 1.5;
                draw.beginPath();
                draw.moveTo(x - 4, middle - 16);
                draw.lineTo(x + 4, middle - 8);
                draw.moveTo(x + 4, middle - 16);
                draw.lineTo(x - 4, middle - 8);
                draw.stroke();
            } else {
                draw.fillStyle = paint(at);
                draw.fillRect(x, middle - 6, Math.max(1.5, Math.min(6, (width - door) / 90)), 12);
            }
        }
        draw.fillStyle = ink;
        draw.font = "12px system-ui, sans-serif";
        draw.textAlign = "right";
        draw.fillText("queue", door - 8, HEIGHT - 8);
        draw.textAlign = "left";
        draw.fillText(`wire, ${(span * 1e3).toPrecision(3)} ms`, door + 8, HEIGHT - 8);
        const words = `${time.toFixed(3)} s: ${waiting} packets wait, ${under} on the wire, ${lost} of them lost`;
        this.#words.textContent = words;
        this.#canvas.setAttribute("aria-label", `The bottleneck at ${words}`);
    }
}
