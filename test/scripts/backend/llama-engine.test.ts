import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { type Engine, EngineUnavailableError } from "../../../scripts/backend/engine.ts";
import { createLlamaEngine } from "../../../scripts/backend/llama-engine.ts";
import { loadEngine } from "../../../scripts/backend/load-engine.ts";
import { tokenizer } from "../../../scripts/backend/tokenizer.ts";
import { engineRules, generation, question, write } from "./support/engine-rules.ts";

const dataDir = await mkdtemp(join(tmpdir(), "t4t-llama-"));
const loaded = await createLlamaEngine({ dataDir, parallel: 4 }).catch((error: unknown) => error);

describe("the llama engine", () => {
  after(async () => {
    if (isEngine(loaded)) await loaded.close();
    await rm(dataDir, { recursive: true });
  });

  it("runs where its binary is installed, and elsewhere says so with an error of its own", () => {
    if (process.platform === "linux" && process.arch === "x64") expect(loaded).to.have.property("name", "llama");
    else if (!isEngine(loaded)) expect(loaded).to.be.instanceOf(EngineUnavailableError);
  });

  if (!isEngine(loaded)) return;
  engineRules(() => loaded);

  it("cuts texts into tokens as llama.cpp itself does", async () => {
    const { getLlama, LlamaLogLevel } = await import("node-llama-cpp");
    const { ensureGguf } = await import("../../../scripts/backend/gguf.ts");
    const llama = await getLlama({ gpu: false, build: "never", progressLogs: false, logLevel: LlamaLogLevel.disabled });
    const model = await llama.loadModel({ modelPath: await ensureGguf(dataDir), vocabOnly: true });
    for (const text of [
      "The gateway, the provider.\n\nuser: hi",
      "héllo 日本 🙂",
      'a\\x41 </s> \t\r\n \u0000 "z"',
      " ".repeat(9),
      "tokenss",
    ]) {
      expect(model.tokenize(text)).to.deep.equal(tokenizer.encode(text));
      expect(model.detokenize(model.tokenize(text))).to.equal(text);
    }
    await llama.dispose();
  });

  it("frees its sequence for the next when a reader stops in the middle", async () => {
    for (let round = 0; round < 12; round += 1) {
      for await (const _token of loaded.generate(generation({ maxTokens: 500, minTokens: 500 }))) break;
    }
    expect((await write(loaded, { maxTokens: 5, minTokens: 5 })).tokens).to.have.length(5);
  });

  it("does not let a new answer wait for the end of those in work", async () => {
    const controller = new AbortController();
    const endless = Array.from({ length: 3 }, async (_, seed) => {
      const request = generation({ seed, maxTokens: 30_000, minTokens: 30_000, signal: controller.signal });
      for await (const _token of loaded.generate(request)) if (controller.signal.aborted) break;
    });
    // Each has to make its sequence forget the answer before, for which node-llama-cpp wants all others to pause.
    for (let seed = 10; seed < 20; seed += 1) await write(loaded, { seed, maxTokens: 3 });
    controller.abort();
    const ends = await Promise.allSettled(endless);
    expect(ends.map(({ status }) => status)).to.deep.equal(["rejected", "rejected", "rejected"]);
  });

  it("serves more answers at once than it has sequences", async () => {
    const texts = await Promise.all(
      Array.from({ length: 12 }, (_, seed) => write(loaded, { seed, maxTokens: 50, minTokens: 50 })),
    );
    for (const { tokens } of texts) expect(tokens).to.have.length(50);
    expect(new Set(texts.map(({ text }) => text)).size).to.equal(12);
  });

  it("fills its context to the last token without an error", async () => {
    const small = await createLlamaEngine({ dataDir, parallel: 1, contextLength: 256 });
    try {
      const room = small.contextLength - question.length;
      expect((await write(small, { maxTokens: room, minTokens: room })).tokens).to.have.length(room);
      const longest = tokenizer.encode(" the gateway".repeat(200)).slice(0, small.contextLength - 1);
      expect((await write(small, { prompt: longest, maxTokens: 1, minTokens: 1 })).tokens).to.have.length(1);
    } finally {
      await small.close();
    }
  });
});

describe("loadEngine", () => {
  it("falls back to the text engine with one line when the model file cannot be used", async () => {
    const lines: string[] = [];
    const engine = await loadEngine({ kind: "auto", dataDir: "/dev/null/nowhere", log: (line) => lines.push(line) });
    expect(engine.name).to.equal("text");
    expect(lines).to.have.length(1);
  });
});

function isEngine(value: unknown): value is Engine {
  return typeof value === "object" && value !== null && "generate" in value;
}
