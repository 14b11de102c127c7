import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import type { AIMessageChunk } from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
import { streamText } from "ai";
import OpenAI from "openai";
import { OpenAI as OpenAI6 } from "openai-6";

/** What a client made of an answer. */
export interface ClientAnswer {
  readonly text: string;
  readonly usage: { readonly input: number; readonly output: number } | undefined;
  /** Ids of the chunks, where the client shows them. */
  readonly ids: readonly string[];
  /** Tool calls by name, with their arguments joined. */
  readonly toolCalls: readonly { readonly name: string; readonly arguments: string }[];
}

/** What to ask. */
export interface ClientRequest {
  readonly url: string;
  readonly model: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly withUsage?: boolean;
}

/** One SDK that people use, asked for a streamed answer. Rejects when the SDK throws or shows an error. */
export interface StreamingClient {
  readonly name: string;
  stream(request: ClientRequest): Promise<ClientAnswer>;
}

const messages = [{ role: "user" as const, content: "Hello" }];
const apiKey = "not-needed-on-loopback";

function openai(name: string, Client: typeof OpenAI): StreamingClient {
  return {
    name,
    stream: async ({ url, model, headers, withUsage }) => {
      const client = new Client({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
      const stream = await client.chat.completions.create(
        {
          model,
          messages,
          stream: true,
          ...(withUsage === true ? { stream_options: { include_usage: true } } : {}),
        },
        { headers: { ...headers } },
      );
      let text = "";
      let usage: ClientAnswer["usage"];
      const ids: string[] = [];
      const calls = new Map<number, { name: string; arguments: string }>();
      for await (const chunk of stream) {
        ids.push(chunk.id);
        // Strict code does not expect a chunk without choices unless it asked for one.
        if (withUsage !== true && chunk.choices.length === 0) throw new Error("a chunk without choices");
        text += chunk.choices[0]?.delta.content ?? "";
        for (const call of chunk.choices[0]?.delta.tool_calls ?? []) {
          const known = calls.get(call.index) ?? { name: "", arguments: "" };
          known.name += call.function?.name ?? "";
          known.arguments += call.function?.arguments ?? "";
          calls.set(call.index, known);
        }
        if (chunk.usage) usage = { input: chunk.usage.prompt_tokens, output: chunk.usage.completion_tokens };
      }
      return { text, usage, ids, toolCalls: [...calls.values()] };
    },
  };
}

/** The helper of the newest `openai`, which assembles chunks by itself and is stricter than the bare stream. */
const openaiHelper: StreamingClient = {
  name: "openai 7, stream helper",
  stream: async ({ url, model, headers, withUsage }) => {
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
    const runner = client.chat.completions.stream(
      { model, messages, ...(withUsage === true ? { stream_options: { include_usage: true } } : {}) },
      { headers: { ...headers } },
    );
    const completion = await runner.finalChatCompletion();
    const { usage } = completion;
    const message = completion.choices[0]?.message;
    return {
      text: message?.content ?? "",
      usage: usage ? { input: usage.prompt_tokens, output: usage.completion_tokens } : undefined,
      ids: [completion.id],
      toolCalls: (message?.tool_calls ?? []).flatMap((call) =>
        call.type === "function" ? [{ name: call.function.name, arguments: call.function.arguments }] : [],
      ),
    };
  },
};

const aiSdk: StreamingClient = {
  name: "ai with openai-compatible",
  stream: async ({ url, model, headers, withUsage }) => {
    const provider = createOpenAICompatible({
      name: "t4t",
      baseURL: `${url}/v1`,
      apiKey,
      ...(withUsage === true ? { includeUsage: true } : {}),
    });
    const result = streamText({
      model: provider.chatModel(model),
      prompt: "Hello",
      maxRetries: 0,
      headers: { ...headers },
      onError: () => undefined,
    });
    let text = "";
    for await (const part of result.stream) {
      if (part.type === "error") throw part.error;
      if (part.type === "text-delta") text += part.text;
    }
    const usage = await result.usage;
    const calls = await result.toolCalls;
    return {
      text,
      usage:
        usage.inputTokens === undefined || usage.outputTokens === undefined
          ? undefined
          : { input: usage.inputTokens, output: usage.outputTokens },
      ids: [],
      toolCalls: calls.map((call) => ({ name: call.toolName, arguments: JSON.stringify(call.input) })),
    };
  },
};

const langchain: StreamingClient = {
  name: "LangChain",
  stream: async ({ url, model, headers, withUsage }) => {
    const chat = new ChatOpenAI({
      model,
      apiKey,
      maxRetries: 0,
      streamUsage: withUsage === true,
      configuration: { baseURL: `${url}/v1`, defaultHeaders: { ...headers } },
    });
    let whole: AIMessageChunk | undefined;
    for await (const chunk of await chat.stream("Hello")) whole = whole === undefined ? chunk : whole.concat(chunk);
    const usage = whole?.usage_metadata as { input_tokens: number; output_tokens: number } | undefined;
    return {
      text: whole?.text ?? "",
      usage: usage === undefined ? undefined : { input: usage.input_tokens, output: usage.output_tokens },
      ids: whole?.id === undefined ? [] : [whole.id],
      toolCalls: (whole?.tool_calls ?? []).map((call) => ({ name: call.name, arguments: JSON.stringify(call.args) })),
    };
  },
};

/** Every client of the table. */
export const streamingClients: readonly StreamingClient[] = [
  openai("openai 7", OpenAI),
  // Both majors have the calls used here with the same types, but a union of classes is not callable.
  openai("openai 6", OpenAI6 as unknown as typeof OpenAI),
  openaiHelper,
  aiSdk,
  langchain,
];
