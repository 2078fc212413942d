// Looks at the live charts of `windward shell --web` and `windward perf server --web` in Chromium:
//
//   node tests/live.mjs [--shots DIR]
//
// Needs root and TUN devices; passes with a note without them. Options and variables are those of browser.mjs.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { program, shots, start } from "./browser.mjs";

if (process.getuid?.() !== 0 || !existsSync("/dev/net/tun")) {
    console.log("skipped: namespaces and TUN devices need root and /dev/net/tun");
    process.exit(0);
}

/** A simulated flow beside a port, over a link that drops, destroys and delays packets. */
const SCENARIO = `
duration = "100s"
[dumbbell]
bottleneck = { rate = "5Mbit", delay = "20ms", queue = "40p", loss = 0.01 }
access = { rate = "100Mbit", delay = "1ms", queue = "1000p" }
[[flows]]
group = "simulated"
protocol = "cubic"
count = 2
`;
const { folder, open, part, accessible, close } = await start();
const file = join(folder, "<script>.toml");
writeFileSync(file, SCENARIO);

/** A command with charts: their address, what it said before, and its end. */
async function begin(words, stop) {
    const child = spawn(program, words, { stdio: ["pipe", "inherit", "pipe"] });
    let said = "";
    const url = await new Promise((found, fail) => {
        child.stderr.on("data", (data) => {
            said += data;
            const [, url] = /^charts: (http:.*)$/m.exec(said) ?? [];
            if (url) found(url);
        });
        child.once("exit", () => fail(new Error(`windward ${words[0]} ended: ${said}`)));
    });
    const over = new Promise((ended) => child.once("exit", ended));
    return { url, said, end: () => (stop(child), over) };
}

/** `windward shell --web` around a program that ends with its input. */
const shell = () => begin(["shell", file, "--web=0", "--", "cat"], (child) => child.stdin.end());
const server = () => begin(["perf", "server", "--bind", "127.0.0.1", "--port", "0", "--web=0"], (child) => child.kill("SIGINT"));

const text = (page, selector) => page.$eval(selector, (element) => element.textContent);
const drawn = (page) => page.evaluate(() => Number(document.documentElement.dataset.drawn ?? 0));
const moves = async (page, more = 3) => {
    const before = await drawn(page);
    await page.waitForFunction((least) => Number(document.documentElement.dataset.drawn ?? 0) > least, {}, before + more);
};

let run = null;
try {
    run = await shell();
    let page = await open(run.url);
    await part("charts move while the program runs, with names as they are", async () => {
        await moves(page, 10);
        assert.match(await text(page, "h1"), /^windward shell: .*<script>\.toml, .*5 Mbit\/s, 20 ms, loss 1 %, .*: cat$/);
        assert.match(await text(page, "#legend"), /simulated-1.*upload.*download.*C \(1 − p\)/);
        const shown = await page.$$eval(".chart:not([hidden]) figcaption", (all) => all.map((each) => each.textContent.split(",")[0]));
        assert.deepEqual(shown, ["Throughput", "Congestion window", "Queueing delay", "Round-trip time", "Packets dropped"]);
        // Two flows of 5 Mbit/s together, less what is lost.
        await page.waitForFunction(() => {
            const label = document.querySelector(".chart.goodput [role=img]").getAttribute("aria-label");
            const own = [...label.matchAll(/simulated-\d ([\d.]+)/g)].map((found) => Number(found[1]));
            return own.length === 2 && own[0] + own[1] > 1 && own[0] + own[1] < 5.2;
        });
        assert.match(await text(page, "#links"), /bottleneck/);
    });

    await part("a pause holds the charts, and they go on with what came meanwhile", async () => {
        await page.click("#pause");
        const before = await drawn(page);
        await new Promise((resume) => setTimeout(resume, 500));
        assert.ok((await drawn(page)) <= before + 1);
        assert.equal(await text(page, "#pause"), "Go on");
        await page.click("#pause");
        await moves(page);
        await page.select("#span", "30");
    });

    await part("no violations of accessibility, narrow and wide, light and dark; nothing sticks out", async () => {
        for (const [width, scheme] of [[390, "light"], [390, "dark"], [1400, "light"], [1400, "dark"]]) {
            const other = await open(run.url, { width, scheme });
            await moves(other);
            await other.click("#pause");
            await accessible(other);
            assert.ok((await other.evaluate(() => document.documentElement.scrollWidth)) <= width);
            if (shots) await other.screenshot({ path: join(shots, `live-${width}-${scheme}.png`), fullPage: true });
            await other.close();
        }
    });

    await part("the page says that the run has ended, and keeps its charts", async () => {
        assert.equal(await run.end(), 0);
        run = null;
        await page.waitForFunction(() => /ended/.test(document.getElementById("state").textContent));
        assert.ok((await page.$$(".chart:not([hidden])")).length >= 5);
        await page.close();
    });
    await part("a perf server shows what it knows of each connection, as receiver and as sender", async () => {
        run = await server();
        const page = await open(run.url);
        await page.waitForFunction(() => /nothing is connected/.test(document.getElementById("time").textContent));
        const [, port] = /listening at 127\.0\.0\.1:(\d+)/.exec(run.said);
        const shown = () => page.$$eval(".chart:not([hidden])", (all) => all.map((each) => each.className.split(" ")[1]));
        const client = async (...more) => {
            const child = spawn(program, ["perf", "client", "127.0.0.1", "--port", port, "-t", "2s", "--quiet", ...more], { stdio: "ignore" });
            assert.equal(await new Promise((ended) => child.once("exit", ended)), 0);
        };
        await client("--protocol", "newreno");
        await page.waitForFunction(() => /1: newreno from 127\.0\.0\.1:\d+/.test(document.getElementById("legend").textContent));
        assert.deepEqual(await shown(), ["goodput", "delay", "lost"]);
        await client("--protocol", "cubic", "-R");
        await page.waitForFunction(() => /2: cubic to 127\.0\.0\.1:\d+/.test(document.getElementById("legend").textContent));
        assert.deepEqual(await shown(), ["goodput", "cwnd", "delay", "rtt", "lost"]);
        if (shots) await page.screenshot({ path: join(shots, "live-perf-server.png"), fullPage: true });
        assert.equal(await run.end(), 0);
        run = null;
        await page.waitForFunction(() => /ended/.test(document.getElementById("state").textContent));
        await page.close();
    });
    await close("live");
} catch (error) {
    await close("live", error);
} finally {
    await run?.end();
}
