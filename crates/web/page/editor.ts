/** The editor of a scenario: completion and explanations from the schema, errors of the engine at their lines. */

import { type CompletionContext, type CompletionResult, autocompletion, closeBrackets } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { toml } from "@codemirror/legacy-modes/mode/toml";
import { setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { EditorView, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Fault } from "./messages.ts";

type Schema = { [key: string]: unknown };

/** The schemas that a schema stands for: its references and alternatives, followed. */
function resolved(schema: Schema | undefined, root: Schema, depth = 0): Schema[] {
    if (!schema || depth > 8) return [];
    if (typeof schema.$ref === "string") {
        const path = schema.$ref.replace(/^#\//, "").split("/");
        const target = path.reduce<Schema | undefined>((at, key) => at?.[key] as Schema | undefined, root);
        return [schema, ...resolved(target, root, depth + 1)];
    }
    const others = ["anyOf", "oneOf", "allOf"].flatMap((word) => (schema[word] as Schema[] | undefined) ?? []);
    return [schema, ...others.flatMap((other) => resolved(other, root, depth + 1))];
}

/** The schemas below a key; `""` stands for the items of an array. */
function below(schemas: Schema[], key: string, root: Schema): Schema[] {
    return schemas.flatMap((schema) => {
        if (key === "") return resolved(schema.items as Schema | undefined, root);
        const properties = schema.properties as Record<string, Schema> | undefined;
        const other = schema.additionalProperties;
        const next = properties?.[key] ?? (typeof other === "object" && other !== null ? (other as Schema) : undefined);
        return resolved(next, root);
    });
}

/** Path of the table in which `before`, the text up to the cursor, ends; and what is left of its last line. */
function place(before: string): { path: string[]; rest: string } {
    const lines = before.split("\n");
    let rest = lines.pop() ?? "";
    const path: string[] = [];
    for (const line of lines.reverse()) {
        const header = /^\s*(\[\[?)\s*([\w.\-"]+)\s*\]/.exec(line);
        if (!header) continue;
        path.push(...header[2].split("."));
        if (header[1] === "[[") path.push("");
        break;
    }
    // Inline tables that are open here: `bottleneck = { rate = "1Mbit", | `.
    for (let open = rest.indexOf("{"); open >= 0; open = rest.indexOf("{")) {
        const closed = rest.slice(open).includes("}");
        const key = /([\w.-]+)\s*=\s*$/.exec(rest.slice(0, open));
        if (closed || !key) {
            rest = rest.slice(closed ? rest.indexOf("}", open) + 1 : open + 1);
            continue;
        }
        path.push(...key[1].split("."));
        rest = rest.slice(open + 1);
    }
    return { path, rest: rest.slice(rest.lastIndexOf(",") + 1) };
}

/** Completion of keys and of values with a fixed set of words. */
export function completion(context: CompletionContext, root: Schema, protocols: string[]): CompletionResult | null {
    const { path, rest } = place(context.state.sliceDoc(0, context.pos));
    const value = /^\s*([\w.-]+)\s*=\s*("?)([\w:.-]*)$/.exec(rest);
    const key = /^\s*(?:[\w-]+\.)*([\w-]*)$/.exec(rest);
    const given = value ? value[1].split(".") : (/^\s*((?:[\w-]+\.)*)/.exec(rest)?.[1].split(".").filter(Boolean) ?? []);
    let at = resolved(root, root);
    for (const step of [...path, ...given]) at = below(at, step, root);
    if (value) {
        const words = new Set<string>();
        for (const schema of at) {
            for (const word of [...((schema.enum as unknown[]) ?? []), schema.const]) if (typeof word === "string") words.add(word);
        }
        if (given.at(-1) === "protocol") for (const name of protocols) words.add(name);
        if (words.size === 0) return null;
        const options = [...words].map((word) => ({ label: word, apply: value[2] ? word : `"${word}"`, type: "constant" }));
        return { from: context.pos - value[3].length, options, validFor: /^[\w:.-]*$/ };
    }
    if (!key || (key[1] === "" && !context.explicit)) return null;
    const options = at.flatMap((schema) =>
        Object.entries((schema.properties as Record<string, Schema> | undefined) ?? {}).map(([label, about]) => {
            const info = resolved(about, root).find((each) => typeof each.description === "string")?.description;
            return { label, type: "property", info: info as string | undefined };
        }),
    );
    return options.length ? { from: context.pos - key[1].length, options, validFor: /^[\w-]*$/ } : null;
}

export class Editor {
    readonly #view: EditorView;
    #schema: Schema = {};
    #protocols: string[] = [];
    #silent = false;

    /** In a shadow tree, whose styles a strict policy allows. */
    constructor(host: HTMLElement, changed: (text: string) => void) {
        const root = host.attachShadow({ mode: "open" });
        const parent = document.createElement("div");
        root.append(parent);
        const look = HighlightStyle.define([
            { tag: tags.comment, color: "var(--soft)" },
            { tag: [tags.string, tags.number, tags.bool, tags.atom], color: "var(--accent)" },
        ]);
        const theme = EditorView.theme({
            "&": { color: "var(--ink)", backgroundColor: "var(--paper)", fontSize: "13px", maxHeight: "26rem" },
            "&.cm-focused": { outline: "2px solid var(--accent)" },
            ".cm-content": { fontFamily: "var(--mono)", caretColor: "var(--ink)" },
            ".cm-cursor": { borderLeftColor: "var(--ink)" },
            ".cm-gutters": { backgroundColor: "var(--paper)", color: "var(--soft)", border: "none" },
            ".cm-scroller": { overflow: "auto", lineHeight: "1.5" },
            ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--ink)", borderColor: "var(--line)" },
            ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--paper)" },
            ".cm-completionInfo": { maxWidth: "26rem" },
        });
        const complete = (context: CompletionContext) => completion(context, this.#schema, this.#protocols);
        this.#view = new EditorView({
            root,
            parent,
            state: EditorState.create({
                extensions: [
                    lineNumbers(),
                    history(),
                    closeBrackets(),
                    autocompletion({ override: [complete] }),
                    StreamLanguage.define(toml),
                    syntaxHighlighting(look),
                    theme,
                    keymap.of([...defaultKeymap, ...historyKeymap]),
                    EditorView.contentAttributes.of({ "aria-label": "Scenario file" }),
                    EditorView.updateListener.of((update) => {
                        if (update.docChanged && !this.#silent) changed(update.state.doc.toString());
                    }),
                ],
            }),
        });
        // The keyboard scrolls it.
        this.#view.scrollDOM.tabIndex = 0;
        // Its styles are there only now.
        requestAnimationFrame(() => this.#view.requestMeasure());
    }

    /** Completes from these. */
    know(schema: Schema, protocols: string[]) {
        this.#schema = schema;
        this.#protocols = protocols;
    }

    get isFocused() {
        return this.#view.hasFocus;
    }

    set text(text: string) {
        if (text === this.#view.state.doc.toString()) return;
        this.#silent = true;
        this.#view.dispatch({ changes: { from: 0, to: this.#view.state.doc.length, insert: text } });
        this.#silent = false;
    }

    /** Marks an error at its place, or removes the mark. */
    mark(fault: Fault | null) {
        const { doc } = this.#view.state;
        if (!fault) {
            this.#view.dispatch(setDiagnostics(this.#view.state, []));
            return;
        }
        const line = doc.line(Math.min(doc.lines, Math.max(1, fault.line ?? 1)));
        const from = Math.min(line.to, line.from + Math.max(0, (fault.column ?? 1) - 1));
        const mark = { from, to: Math.max(from, line.to), severity: "error" as const, message: fault.message };
        this.#view.dispatch(setDiagnostics(this.#view.state, [mark]));
    }
}
