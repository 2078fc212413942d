/** What the page shows: one or two set-ups, each a scene of the controls or a text. */

/** One side of the opening scene. */
export interface Side {
    protocol: string;
    count: number;
    /** Losses of its own last hop, percent. */
    loss: number;
}

/** A set-up. The controls describe a dumbbell; `text`, if there is one, takes their place. */
export interface Setup {
    /** Rate, Mbit/s. */
    rate: number;
    /** Round-trip time with empty queues, ms. */
    rtt: number;
    /** Queue, bandwidth-delay products. */
    queue: number;
    /** Losses on the link, percent of packets. */
    loss: number;
    /** Mean length of a run of lost packets. */
    burst: number;
    /** Maximum of the random delay, ms. */
    jitter: number;
    aqm: string;
    router: string;
    /** Length of the run, seconds. */
    duration: number;
    seed: number;
    sides: Side[];
    /** A law of two expressions, which runs beside the others if both are given. */
    law: { on_ack: string; on_loss: string };
    text: string | null;
}

export interface State {
    setups: Setup[];
    seeds: number;
}

export const PACKET = 1500;

export const OPENING: Setup = {
    rate: 10,
    rtt: 80,
    queue: 1,
    loss: 2,
    burst: 1,
    jitter: 0,
    aqm: "droptail",
    router: "auto",
    duration: 20,
    seed: 1,
    sides: [
        { protocol: "cubic", count: 1, loss: 0 },
        { protocol: "upwind", count: 1, loss: 0 },
    ],
    law: { on_ack: "", on_loss: "" },
    text: null,
};

/** Packets of a bandwidth-delay product. */
export const bdp = (setup: Setup) => (setup.rate * 1e6 * setup.rtt * 1e-3) / (8 * PACKET);

/** A number without the noise of binary fractions. */
const short = (value: number) => String(Number(value.toPrecision(6)));
const quoted = (text: string) => JSON.stringify(text);

/** The scenario of a set-up as a file. */
export function toml(setup: Setup): string {
    if (setup.text !== null) return setup.text;
    const link = [
        `rate = "${short(setup.rate)}Mbit"`,
        `delay = "${short(setup.rtt / 2)}ms"`,
        `queue = "${Math.max(2, Math.round(setup.queue * bdp(setup)))}p"`,
    ];
    const loss = setup.loss / 100;
    if (loss > 0 && setup.burst > 1) {
        // Bursts of L packets that each packet outside one begins with probability e destroy L e / (1 + (L - 1) e).
        const event = loss / (setup.burst - loss * (setup.burst - 1));
        link.push(`burst = { event = ${short(event)}, length = ${setup.burst} }`);
    } else if (loss > 0) {
        link.push(`loss = ${short(loss)}`);
    }
    if (setup.jitter > 0) link.push(`jitter = "${short(setup.jitter)}ms"`);
    if (setup.aqm !== "droptail") link.push(`aqm = ${quoted(setup.aqm)}`);
    if (setup.router !== "auto") link.push(`router = ${quoted(setup.router)}`);
    const names = new Set<string>();
    const flows = setup.sides.filter((side) => side.count > 0).map((side) => {
        const name = names.has(side.protocol) ? `${side.protocol}-too` : side.protocol;
        names.add(name);
        const own = side.loss > 0 ? `\nlast_hop = { loss = ${short(side.loss / 100)} }` : "";
        return `[[flows]]\ngroup = ${quoted(name)}\ncount = ${side.count}\nprotocol = ${quoted(side.protocol)}${own}\n`;
    });
    if (hasLaw(setup)) {
        const { on_ack, on_loss } = setup.law;
        const law = `{ window = { on_ack = ${quoted(on_ack)}, on_loss = ${quoted(on_loss)} } }`;
        flows.push(`[[flows]]\ngroup = "own-law"\nprotocol = ${law}\n`);
    }
    return [
        `duration = "${short(setup.duration)}s"`,
        `warmup = "${short(Math.round(setup.duration * 2) / 10)}s"`,
        `seed = ${setup.seed}`,
        "",
        "[endpoint]",
        `packet_size = ${PACKET}`,
        "",
        "[dumbbell]",
        `bottleneck = { ${link.join(", ")} }`,
        `access = { rate = "${short(Math.max(1000, setup.rate * 10))}Mbit", delay = "0ms", queue = "100000p" }`,
        "",
        flows.join("\n"),
    ].join("\n");
}

export const hasLaw = (setup: Setup) => setup.law.on_ack.trim() !== "" && setup.law.on_loss.trim() !== "";

/** What stands for itself in a word in single quotes, in any shell that a command may be pasted into. */
const PLAIN = /^[A-Za-z0-9 _.,:=+*/()[\]{}"#-]$/;
const utf8 = new TextEncoder();

/**
 * Command that gives the same fingerprint. The scenario may come from a link of somebody else: it is one quoted word of
 * one line, and every character that a shell, its history or a terminal could act on is an octal escape of `printf %b`.
 */
export function command(setup: Setup): string {
    const octal = (byte: number) => `\\0${byte.toString(8).padStart(3, "0")}`;
    const escaped = Array.from(toml(setup).replace(/\n*$/, "\n"), (char) => {
        if (char === "\n") return "\\n";
        return PLAIN.test(char) ? char : Array.from(utf8.encode(char), octal).join("");
    });
    return `printf %b '${escaped.join("")}' | windward run -`;
}

/** Largest fragment that is read, characters, and largest state in it, bytes. */
const LONGEST = 200_000;
const LARGEST = 2_000_000;

async function pipe(bytes: Uint8Array<ArrayBuffer>, through: GenericTransformStream): Promise<Uint8Array<ArrayBuffer>> {
    const reader = new Blob([bytes]).stream().pipeThrough(through).getReader();
    const chunks: Uint8Array<ArrayBuffer>[] = [];
    let size = 0;
    for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        size += value.length;
        if (size > LARGEST) {
            void reader.cancel();
            throw new Error("it is too large");
        }
        chunks.push(value);
    }
    return new Uint8Array(await new Blob(chunks).arrayBuffer());
}

/** The state as text of a link, without `#`. */
export async function encode(state: State): Promise<string> {
    // Only what differs from the opening scene.
    const setups = state.setups.map((setup) =>
        setup.text !== null
            ? { text: setup.text }
            : Object.fromEntries(Object.entries(setup).filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(OPENING[key as keyof Setup]))),
    );
    const json = JSON.stringify({ setups, seeds: state.seeds });
    const bytes = await pipe(utf8.encode(json) as Uint8Array<ArrayBuffer>, new CompressionStream("deflate-raw"));
    let binary = "";
    for (const byte of bytes) binary += String.fromCharCode(byte);
    return `s=${btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
}

/** The state of a link. Throws an error that says what is wrong with it. */
export async function decode(fragment: string): Promise<State> {
    const text = fragment.replace(/^#?s=/, "");
    if (text.length > LONGEST) throw new Error("it is too long");
    let given: unknown;
    try {
        const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
        const bytes = Uint8Array.from(binary, (digit) => digit.charCodeAt(0));
        given = JSON.parse(new TextDecoder().decode(await pipe(bytes, new DecompressionStream("deflate-raw"))));
    } catch (error) {
        throw error instanceof Error && error.message === "it is too large" ? error : new Error("it is damaged or incomplete");
    }
    const { setups, seeds } = (given ?? {}) as Record<string, unknown>;
    if (!Array.isArray(setups) || setups.length < 1 || setups.length > 2) throw new Error("it has no set-up");
    return { setups: setups.map(checked), seeds: number(seeds, 1, 30, 1, true) };
}

function number(value: unknown, least: number, most: number, usual: number, whole = false): number {
    if (typeof value !== "number" || !Number.isFinite(value)) return usual;
    const kept = Math.min(most, Math.max(least, value));
    return whole ? Math.round(kept) : kept;
}

const word = (value: unknown, usual: string) => (typeof value === "string" && value.length < 10_000 ? value : usual);

/** A set-up of foreign origin, with every value in its range. */
function checked(given: unknown): Setup {
    const from = (typeof given === "object" && given !== null ? given : {}) as Record<string, unknown>;
    const law = (from.law ?? {}) as Record<string, unknown>;
    const sides: unknown[] = Array.isArray(from.sides) ? from.sides : OPENING.sides;
    return {
        rate: number(from.rate, 0.1, 1000, OPENING.rate),
        rtt: number(from.rtt, 1, 1000, OPENING.rtt),
        queue: number(from.queue, 0.05, 8, OPENING.queue),
        loss: number(from.loss, 0, 50, OPENING.loss),
        burst: number(from.burst, 1, 50, OPENING.burst, true),
        jitter: number(from.jitter, 0, 200, OPENING.jitter),
        aqm: word(from.aqm, OPENING.aqm),
        router: word(from.router, OPENING.router),
        duration: number(from.duration, 1, 600, OPENING.duration),
        seed: number(from.seed, 0, Number.MAX_SAFE_INTEGER, OPENING.seed, true),
        // The controls have both sides; one that is missing does not send.
        sides: OPENING.sides.map((usual, n) => {
            const { protocol, count, loss } = (sides[n] ?? { count: 0 }) as Record<string, unknown>;
            return { protocol: word(protocol, usual.protocol), count: number(count, 0, 100, 1, true), loss: number(loss, 0, 50, 0) };
        }),
        law: { on_ack: word(law.on_ack, ""), on_loss: word(law.on_loss, "") },
        text: typeof from.text === "string" ? from.text : null,
    };
}
