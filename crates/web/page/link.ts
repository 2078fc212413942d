/** Picture of the bottleneck at an instant: packets in its queue, and on its wire. */

import { looksOf } from "./charts.ts";
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

/** A number of something: `1 packet`, `2 packets`. */
export const counted = (count: number, one: string, many: string) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

export class LinkPicture {
    readonly #canvas = document.createElement("canvas");
    readonly #words = document.createElement("p");
    #result: Result | null = null;
    #packets: Float64Array | null = null;
    #colors: string[] = [];

    constructor(host: HTMLElement) {
        this.#canvas.setAttribute("role", "img");
        // An image has a name before its first drawing too.
        this.#canvas.setAttribute("aria-label", "The bottleneck");
        this.#words.className = "at";
        host.append(this.#canvas, this.#words);
    }

    /**
     * Shows this run, or one that is not known yet. Its packets may come later: until then, the picture says so, and that
     * of another run is gone.
     */
    expect(result: Result | null) {
        const isNew = result?.outcome.fingerprint !== this.#result?.outcome.fingerprint;
        if (result) this.#colors = looksOf(result).map((look) => look.color);
        this.#result = result;
        if (isNew || !result) this.#hide("The packets of this run follow.");
    }

    /** Draws these packets if they are those of the run that it shows; `null` if they are too many. */
    show(fingerprint: string, packets: Float64Array | null) {
        if (fingerprint !== this.#result?.outcome.fingerprint) return;
        if (packets) {
            this.#packets = packets;
            this.#canvas.dataset.fingerprint = fingerprint;
        } else {
            this.#hide("This run has too many packets to draw.");
        }
    }

    #hide(words: string) {
        this.#packets = null;
        delete this.#canvas.dataset.fingerprint;
        this.#canvas.getContext("2d")!.clearRect(0, 0, this.#canvas.width, this.#canvas.height);
        this.#canvas.setAttribute("aria-label", "The bottleneck");
        this.#words.textContent = words;
    }

    /** True if there are packets to draw. */
    get isReady() {
        return this.#packets !== null;
    }

    draw(time: number) {
        const result = this.#result;
        const width = this.#canvas.parentElement!.clientWidth;
        const packets = this.#packets;
        if (!result || !packets || width === 0) return;
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
        const group = (at: number) => facts.group_of[packets[3 * at + 1]] ?? 0;
        const paint = (at: number) => this.#colors[group(at)] ?? "#888";
        // Packets of the second and third group are lower too.
        const share = (at: number) => [1, 0.5, 0.75][group(at) % 3];
        const cross = (at: number, x: number, y: number) => {
            draw.strokeStyle = paint(at);
            draw.lineWidth = 1.5;
            draw.beginPath();
            draw.moveTo(x - 4, y - 4);
            draw.lineTo(x + 4, y + 4);
            draw.moveTo(x + 4, y - 4);
            draw.lineTo(x - 4, y + 4);
            draw.stroke();
        };
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
            const height = Math.max((tall - 2) * share(at), 1);
            draw.fillRect(x, top - 1 + tall * ((drawn % rows) + 1) - height, Math.max(step - 1, 0.6), height);
            drawn += 1;
        }
        // The wire: packets that left within the propagation delay. Those that the queue dropped meanwhile fall out of it.
        const span = Math.max(link.delay_s, 1e-4);
        const tail = Math.max(8, door - 8 - step * (Math.ceil(waiting / rows) + 0.5));
        let [lost, under, dropped] = [0, 0, 0];
        for (let at = next - 1; at >= 0 && packets[3 * at] > time - span; at -= 1) {
            const fate = packets[3 * at + 2];
            const age = (time - packets[3 * at]) / span;
            const x = door + 8 + age * (width - door - 16);
            const middle = (top + bottom) / 2;
            if (fate === 2) {
                dropped += 1;
                cross(at, tail, top + age * (HEIGHT - 6 - top));
                continue;
            }
            under += 1;
            if (fate === 1) {
                lost += 1;
                cross(at, x, middle - 12);
            } else {
                draw.fillStyle = paint(at);
                const height = 12 * share(at);
                draw.fillRect(x, middle - height / 2, Math.max(1.5, Math.min(6, (width - door) / 90)), height);
            }
        }
        draw.fillStyle = ink;
        draw.font = "12px system-ui, sans-serif";
        draw.textAlign = "right";
        draw.fillText("queue", door - 8, HEIGHT - 8);
        draw.textAlign = "left";
        draw.fillText(`wire, ${(span * 1e3).toPrecision(3)} ms`, door + 8, HEIGHT - 8);
        const drops = dropped > 0 ? `, ${dropped} dropped by the queue` : "";
        const words = `${time.toFixed(3)} s: ${counted(waiting, "packet waits", "packets wait")}, ${under} on the wire, ${lost} of them lost${drops}`;
        this.#words.textContent = words;
        this.#canvas.setAttribute("aria-label", `The bottleneck at ${words}`);
    }
}
