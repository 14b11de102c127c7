import type { Llama, LlamaContext, LlamaContextSequence, LlamaModel, Token as LlamaToken } from "node-llama-cpp";
import { type Engine, EngineUnavailableError, type GenerationRequest } from "./engine.ts";
import { ensureGguf, ggufContextLength } from "./gguf.ts";
import { hashNumbers } from "./seeded-random.ts";
import { SlotGate } from "./slot-gate.ts";
import { Turnstile } from "./turnstile.ts";
import { endToken, paragraphToken, type Token } from "./vocabulary.ts";

export interface LlamaEngineOptions {
  /** Folder of the model file, which is written there at the first start. */
  readonly dataDir: string;
  /** Answers at the same time, 1..64; 16 by default. */
  readonly parallel?: number;
  /** Tokens of prompt and answer together, for each of the parallel answers; 32,768 by default. */
  readonly contextLength?: number;
}

/** Tokens of one step of llama.cpp. Its scratch memory grows with it, and the model is too small to gain by more. */
const batchTokens = 128;
/** Prompt tokens read between two looks at the signal. */
const promptStep = 512;
/** A greedy two-word memory runs in circles; a small cost for words just used keeps it going. */
const greedyMemory = 64;
const greedyPenalty = { presencePenalty: 1.5, frequencyPenalty: 0.5 };

/**
 * The model file run by llama.cpp on one thread of the CPU, through the optional package `node-llama-cpp`. Nothing is downloaded, built
 * or printed. Throws `EngineUnavailableError` where the package, its binary or the model cannot be loaded.
 */
export async function createLlamaEngine(options: LlamaEngineOptions): Promise<Engine> {
  const contextLength = options.contextLength ?? ggufContextLength;
  const parallel = options.parallel ?? 16;
  const loaded = await load(options.dataDir, contextLength, parallel);
  const idle = Array.from({ length: parallel }, () => loaded.context.getSequence());
  const gate = new SlotGate(parallel);
  const turnstile = new Turnstile();
  return {
    name: "llama",
    contextLength,
    parallel,
    async *generate(request) {
      const release = await gate.acquire(request.signal);
      const sequence = takeClosest(idle, request.prompt);
      try {
        yield* write(sequence, turnstile, request);
      } finally {
        idle.push(sequence);
        release();
      }
    },
    async close() {
      await loaded.context.dispose();
      await loaded.model.dispose();
      await loaded.llama.dispose();
    },
  };
}

interface LoadedModel {
  readonly llama: Llama;
  readonly model: LlamaModel;
  readonly context: LlamaContext;
}

async function load(dataDir: string, contextSize: number, sequences: number): Promise<LoadedModel> {
  try {
    const modelPath = await ensureGguf(dataDir);
    const { getLlama, LlamaLogLevel } = await import("node-llama-cpp");
    const llama = await getLlama({
      gpu: false,
      build: "never",
      skipDownload: true,
      progressLogs: false,
      debug: false,
      logLevel: LlamaLogLevel.disabled,
      logger: () => undefined,
      maxThreads: 1,
    });
    const model = await llama.loadModel({ modelPath, ignoreMemorySafetyChecks: true });
    const context = await model.createContext({
      contextSize,
      sequences,
      batchSize: batchTokens,
      threads: 1,
      ignoreMemorySafetyChecks: true,
    });
    return { llama, model, context };
  } catch (error) {
    throw new EngineUnavailableError("llama", error instanceof Error ? error.message : String(error), error);
  }
}

/** Takes the idle sequence that remembers most of the prompt. */
function takeClosest(idle: LlamaContextSequence[], prompt: readonly Token[]): LlamaContextSequence {
  const wanted = prompt.map(toLlama);
  let best = 0;
  let bestLength = -1;
  for (const [index, sequence] of idle.entries()) {
    const { firstDifferentIndex } = sequence.compareContextTokens(wanted);
    if (firstDifferentIndex > bestLength) {
      best = index;
      bestLength = firstDifferentIndex;
    }
  }
  const [sequence] = idle.splice(best, 1);
  if (sequence === undefined) throw new Error("the gate let more answers in than there are sequences");
  return sequence;
}

/**
 * node-llama-cpp decodes for as long as any sequence asks for a token, and lets nobody change a sequence until then: under load, a new
 * answer would wait for the end of the others. So the others hold their next token back while one forgets its last answer.
 */
async function* write(
  sequence: LlamaContextSequence,
  turnstile: Turnstile,
  request: GenerationRequest,
): AsyncGenerator<Token, void, void> {
  const { signal, maxTokens, minTokens } = request;
  const prompt = request.prompt.map(toLlama);
  await turnstile.whileShut(() => sequence.adaptStateToTokens(prompt.slice(0, -1), false));
  const cachedTokens = sequence.nextTokenIndex;
  request.onPrompt(cachedTokens);
  let position = cachedTokens;
  for (; position + promptStep < prompt.length; position += promptStep) {
    while (turnstile.shut !== undefined) await turnstile.shut;
    signal.throwIfAborted();
    await sequence.evaluateWithoutGeneratingNewTokens(prompt.slice(position, position + promptStep));
  }
  signal.throwIfAborted();
  const written: LlamaToken[] = [];
  const tokens = sequence.evaluate(prompt.slice(position), {
    temperature: request.temperature,
    topP: request.topP,
    topK: 0,
    minP: 0,
    seed: hashNumbers(request.prompt, request.seed),
    yieldEogToken: true,
    ...(request.temperature === 0 && {
      repeatPenalty: { punishTokens: () => written.slice(-greedyMemory), penalty: 1, ...greedyPenalty },
    }),
  });
  try {
    let replacement: LlamaToken | undefined;
    while (written.length < maxTokens) {
      while (turnstile.shut !== undefined) await turnstile.shut;
      const step = await tokens.next(replacement);
      signal.throwIfAborted();
      if (step.done === true) return;
      if (step.value === endToken && written.length >= minTokens) return;
      // llama.cpp ignores a bias against the end token, so an unwanted end becomes a new paragraph.
      replacement = step.value === endToken ? toLlama(paragraphToken) : undefined;
      const token = replacement ?? step.value;
      written.push(token);
      yield token;
      signal.throwIfAborted();
    }
  } finally {
    await tokens.return();
  }
}

/** llama.cpp's tokens are plain numbers with a brand. */
function toLlama(token: Token): LlamaToken {
  return token as LlamaToken;
}
