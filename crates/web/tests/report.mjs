// Looks at reports of `windward sweep`, `windward reproduce` and `windward evaluate` in Chromium, narrow and wide, light and dark: node
// tests/report.mjs. Options and variables are those of browser.mjs.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { program, root, start } from "./browser.mjs";

const { folder, open, part, accessible, close } = await start();
let failed;
try {
    for (const words of [
        ["sweep", join(root, "experiments/examples/loss-sweep.toml")],
        ["reproduce", "lr2008-fig9"],
        ["evaluate", "cubic", "bbr", "--only", "high-loss"],
    ]) {
        const out = join(folder, words[0]);
        execFileSync(program, ["-q", ...words, "--quick", "--out", out], { cwd: folder });
        for (const name of readdirSync(out).filter((name) => name.endsWith(".html") && name !== "play.html")) {
            for (const view of [{ width: 390, scheme: "light" }, { width: 1400, scheme: "dark" }]) {
                await part(`${words[0]}: ${name}, ${view.width} px, ${view.scheme}`, async () => {
                    const page = await open(`file://${out}/${name}`, view);
                    assert.ok((await page.evaluate(() => document.scrollingElement.scrollWidth)) <= view.width);
                    await accessible(page);
                    await page.close();
                });
            }
        }
    }
} catch (error) {
    failed = error;
}
await close("reports", failed);
