// A browser for tests of pages: everything that a page must not do fails the part of the test in which it happens.
//
// WINDWARD is the program, target/release/windward unless set; CHROMIUM the browser, or FIREFOX, which is without the
// choice between light and dark. --shots DIR keeps pictures.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import puppeteer from "puppeteer-core";

export const here = dirname(fileURLToPath(import.meta.url));
export const root = join(here, "../../..");
export const program = process.env.WINDWARD ?? join(root, "target/release/windward");
export const shots = process.argv.includes("--shots") ? process.argv[process.argv.indexOf("--shots") + 1] : null;

export async function start() {
    const folder = mkdtempSync(join(tmpdir(), "windward-web-"));
    const firefox = process.env.FIREFOX;
    const browser = await puppeteer.launch({
        browser: firefox ? "firefox" : "chrome",
        executablePath: firefox ?? process.env.CHROMIUM ?? "/usr/bin/chromium",
        headless: true,
        userDataDir: join(folder, "profile"),
        args: firefox ? [] : ["--no-sandbox", "--disable-dev-shm-usage"],
    });
    let passed = 0;
    /** Everything that must not happen. */
    const wrong = [];

    /** A new tab with that page. */
    async function open(url, { width = 1400, scheme = "light" } = {}) {
        const page = await browser.newPage();
        page.setDefaultTimeout(20_000);
        page.on("pageerror", (error) => wrong.push(`error in the page: ${error.message}`));
        page.on("console", (message) => message.type() === "error" && wrong.push(`console: ${message.text()}`));
        page.on("request", (request) => {
            const local = ["data:", "blob:"].some((scheme) => request.url().startsWith(scheme)) || request.url().startsWith(url.split("#")[0]);
            if (!local) wrong.push(`request to ${request.url()}`);
        });
        await page.setViewport({ width, height: 900 });
        if (!firefox) await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
        await page.goto(url);
        return page;
    }

    async function part(name, act) {
        const began = performance.now();
        await act();
        assert.deepEqual(wrong, [], name);
        passed += 1;
        console.log(`ok: ${name} (${((performance.now() - began) / 1000).toFixed(1)} s)`);
    }

    async function accessible(page) {
        await page.evaluate(readFileSync(join(here, "../node_modules/axe-core/axe.min.js"), "utf8"));
        const { violations } = await page.evaluate(() => globalThis.axe.run());
        assert.deepEqual(violations.map((each) => `${each.id}: ${each.nodes.map((node) => node.html).join(" ")}`), []);
    }

    /** Prints the result of the test and ends the browser. */
    async function close(name, error) {
        if (error) {
            console.log(error);
            if (wrong.length) console.log(wrong);
            process.exitCode = 1;
        }
        console.log(`${name}: ${passed} passed, ${error ? 1 : 0} failed`);
        await browser.close();
        rmSync(folder, { recursive: true, force: true });
    }

    return { browser, folder, wrong, open, part, accessible, close };
}
