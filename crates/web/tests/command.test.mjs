// What a link to the playground may contain, and the command that the page offers to copy for it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { deflateRawSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const { outputFiles } = await build({ entryPoints: [join(here, "../page/state.ts")], bundle: true, write: false, format: "esm" });
const { OPENING, command, decode, toml } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);

const fragment = (state) => `#s=${deflateRawSync(JSON.stringify(state)).toString("base64url")}`;

// A `windward` that keeps what it is given.
const folder = mkdtempSync(join(tmpdir(), "windward-paste-"));
after(() => rmSync(folder, { recursive: true, force: true }));
const [given, breach] = [join(folder, "given"), join(folder, "breach")];
writeFileSync(join(folder, "windward"), `#!/bin/sh\ntest "$*" = "run -" && cat > '${given}' && echo done\n`, { mode: 0o755 });
const environment = { ...process.env, PATH: `${folder}${delimiter}${process.env.PATH}`, HOME: folder, TERM: "xterm", HISTFILE: "" };

/** What the program reads after a paste of that command. */
function pasted(shell, bracketed, text) {
    rmSync(given, { force: true });
    const options = { input: text, env: environment, cwd: folder, encoding: "utf8", timeout: 60_000 };
    const shown = execFileSync("python3", [join(here, "paste.py"), shell, bracketed ? "1" : "0"], options);
    assert.ok(!existsSync(breach), `a text ran a command: ${JSON.stringify(text)}`);
    assert.ok(existsSync(given), `the program did not run: ${shown}`);
    return readFileSync(given, "utf8");
}

const run = `touch ${breach}`;
const ends = { LF: "\n", CR: "\r", CRLF: "\r\n", LS: "\u2028", PS: "\u2029", NEL: "\u0085", VT: "\v", FF: "\f" };
const HOSTILE = [
    ...Object.entries(ends).map(([name, end]) => [`${name} and a delimiter`, ["# x", "END", "'", run, ""].join(end)]),
    ["the end of a bracketed paste", `# \u001b[201~\r${run}\r\n# \u009b201~\r${run}\r`],
    ["an interrupt and an end of file", `#\u0003\r${run}\r#\u0004\r${run}\r`],
    ["NUL, DEL and erasure", `# \u0000\u007f\u0015${run}\r`],
    ["quotes and backslashes", `a = "\\"'; ${run}; '\\'"\nb = '\\c \\0047; ${run} #\\'\\'\n`],
    ["expansions", `# $(${run}) \`${run}\` \${x} %s %n ~ !! !$ !touch\n^a^b^\n& ${run} | ${run} > x ; ${run}\n`],
    ["letters of other alphabets, and marks of direction", "# C (1 − p), “é”, 🐦, \u202e\u2066\u00ad\n"],
    ["tabs", "[dumbbell]\n\tbottleneck =\t1\n"],
];

test("no text of a link leaves the command that is copied", () => {
    const whole = HOSTILE.map(([, text]) => text).join("");
    for (const [name, text] of [...HOSTILE, ["all of them", whole]]) {
        const copied = command({ ...OPENING, text });
        assert.match(copied, /^printf %b '[\x20-\x7e]*' \| windward run -$/, name);
        assert.equal(copied.split("'").length, 3, name);
        // As written by a script, and pasted by terminals of both kinds.
        execFileSync("sh", ["-c", copied], { env: environment, cwd: folder, stdio: "pipe" });
        const expected = text.replace(/\n*$/, "\n");
        assert.equal(readFileSync(given, "utf8"), expected, name);
        for (const bracketed of [true, false]) assert.equal(pasted("bash --norc --noprofile -i", bracketed, copied), expected, name);
    }
    assert.equal(pasted("dash -i", false, command(OPENING)), toml(OPENING));
});

test("names, seeds and numbers of a link are words of the scenario", async () => {
    const hostile = HOSTILE.map(([, text]) => text).join("");
    const side = { protocol: hostile, count: 1, loss: 1 };
    const state = { setups: [{ ...OPENING, aqm: hostile, router: hostile, seed: hostile, rate: hostile, sides: [side, side], law: { on_ack: hostile, on_loss: hostile } }], seeds: hostile };
    const { setups, seeds } = await decode(fragment(state));
    assert.equal(seeds, 1);
    assert.match(command(setups[0]), /^printf %b '[\x20-\x7e]*' \| windward run -$/);
    assert.equal(pasted("bash --norc --noprofile -i", true, command(setups[0])), toml(setups[0]));
});

test("a link that lacks parts of a set-up gives a whole one", async () => {
    const cubic = { protocol: "cubic", count: 1, loss: 0 };
    const silent = { ...OPENING.sides[1], count: 0 };
    for (const [sides, expected] of [
        [[cubic], [cubic, silent]],
        [[], [{ ...OPENING.sides[0], count: 0 }, silent]],
        [[null, cubic], [{ ...OPENING.sides[0], count: 0 }, cubic]],
        [[cubic, 3], [cubic, { ...OPENING.sides[1], count: 1 }]],
        [[cubic, cubic, cubic], [cubic, cubic]],
        ["cubic", OPENING.sides],
        [undefined, OPENING.sides],
    ]) {
        const { setups } = await decode(fragment({ setups: [{ sides }] }));
        assert.deepEqual(setups[0].sides, expected, JSON.stringify(sides));
    }
    for (const odd of [null, 7, "x", [], { law: null }, { law: 3 }, { law: { on_ack: [] } }, { text: 5 }]) {
        assert.deepEqual((await decode(fragment({ setups: [odd] }))).setups, [OPENING], JSON.stringify(odd));
    }
});
