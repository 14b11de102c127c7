import {
  type ChooseScript,
  close as closeConnection,
  chunk,
  end,
  head,
  type ReceivedRequest,
  type Script,
  startScriptedUpstream,
} from "../../support/scripted-upstream.ts";

/** A scripted backend that answers health probes by itself. */
export interface ScriptedBackend {
  readonly url: string;
  /** Completion requests so far, without probes. */
  completions(): readonly ReceivedRequest[];
  /** Replaces the script for requests from here on. */
  use(script: Script | ChooseScript): void;
  /** Whether probes find the backend well. */
  setHealthy(isHealthy: boolean): void;
  close(): Promise<void>;
}

const empty = { "content-length": "0", connection: "close" };
const ok: Script = [head(200, empty), closeConnection];
const absent: Script = [head(404, empty), closeConnection];
const broken: Script = [head(503, empty), closeConnection];

/** Starts one; its completions follow the script. */
export async function startScriptedBackend(script: Script | ChooseScript): Promise<ScriptedBackend> {
  let current = script;
  let isHealthy = true;
  let index = 0;
  const upstream = await startScriptedUpstream((request) => {
    if (request.method === "GET") {
      if (request.path === "/health") return isHealthy ? ok : broken;
      return absent;
    }
    const script = typeof current === "function" ? current(request, index) : current;
    index += 1;
    return script;
  });
  return {
    url: upstream.url,
    completions: () => upstream.requests.filter((request) => request.method === "POST"),
    use: (next) => {
      current = next;
    },
    setHealthy: (value) => {
      isHealthy = value;
    },
    close: async () => await upstream.close(),
  };
}

/** Head of a stream. */
export const streamHead = head(200, { "content-type": "text/event-stream" });

/** One chunk with content. */
export function delta(content: string): string {
  return `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", choices: [{ index: 0, delta: { content } }] })}\n\n`;
}

/** The chunk that says the usage. */
export function usageChunk(inputTokens: number, outputTokens: number): string {
  const usage = {
    prompt_tokens: inputTokens,
    completion_tokens: outputTokens,
    total_tokens: inputTokens + outputTokens,
  };
  return `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", choices: [], usage })}\n\n`;
}

/** The chunk that ends the one choice. */
export const stopChunk = `data: ${JSON.stringify({ id: "c", choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })}\n\n`;
export const doneChunk = "data: [DONE]\n\n";

/** A whole good stream of these words. */
export function goodStream(words: readonly string[], inputTokens = 7): Script {
  return [
    streamHead,
    ...words.map((word) => chunk(delta(word))),
    chunk(stopChunk + usageChunk(inputTokens, words.length) + doneChunk),
    end,
  ];
}

/** A whole good JSON answer. @param more Further members of it. */
export function goodAnswer(content: string, inputTokens = 7, outputTokens = 3, more: object = {}): Script {
  const text = JSON.stringify({
    id: "c",
    object: "chat.completion",
    choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }],
    usage: { prompt_tokens: inputTokens, completion_tokens: outputTokens, total_tokens: inputTokens + outputTokens },
    ...more,
  });
  return [head(200, { "content-type": "application/json" }), chunk(text), end];
}
