import { z } from "zod";
import { T4tError } from "../../protocol/errors.ts";
import { checkBody } from "./check-body.ts";
import { type ChatMessage, chatPrompt, completionPrompt } from "./prompt.ts";
import { hashNumbers } from "./seeded-random.ts";
import { type Token, vocabulary } from "./vocabulary.ts";

/** A request for answers, checked and free of what differs between the two routes. */
export interface ParsedRequest {
  readonly kind: "chat" | "text";
  readonly model: string;
  /** One for a chat, one or more for text completions. */
  readonly prompts: readonly (readonly Token[])[];
  /** Answers per prompt. */
  readonly answersPerPrompt: number;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  /** Undefined = until the model ends or the context is full. */
  readonly maxTokens: number | undefined;
  readonly minTokens: number;
  readonly temperature: number;
  readonly topP: number;
  /** Unsigned 32-bit. */
  readonly seed: number;
  readonly stops: readonly string[];
}

const maxAnswers = 16;

const token = z
  .int()
  .min(0)
  .max(vocabulary.length - 1);

const textPart = z.looseObject({ type: z.literal("text", "this model reads text only"), text: z.string() });

const message = z.looseObject({
  role: z.enum(["system", "developer", "user", "assistant", "tool", "function"]),
  content: z.union([z.string(), z.array(textPart)]).nullish(),
});

const shared = {
  model: z.string().min(1),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  max_tokens: z.int().min(1).nullish(),
  min_tokens: z.int().min(0).nullish(),
  ignore_eos: z.boolean().nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  seed: z.int().nullish(),
  stop: z.union([z.string(), z.array(z.string()).max(4)]).nullish(),
  n: z.int().min(1).max(maxAnswers).nullish(),
};

const chatBody = z.looseObject({
  ...shared,
  messages: z.array(message).min(1),
  max_completion_tokens: z.int().min(1).nullish(),
  logprobs: z.literal(false, "log probabilities are not supported").nullish(),
});

const textBody = z.looseObject({
  ...shared,
  prompt: z.union([
    z.string(),
    z.array(z.string()).min(1),
    z.array(token).min(1),
    z.array(z.array(token).min(1)).min(1),
  ]),
  echo: z.literal(false, "echo is not supported").nullish(),
  best_of: z.literal(1, "best_of is not supported").nullish(),
  suffix: z.literal("", "suffix is not supported").nullish(),
  logprobs: z.literal(0, "log probabilities are not supported").nullish(),
});

type SharedBody = z.infer<z.ZodObject<typeof shared>>;

/** Reads the body of `POST /v1/chat/completions`. Unknown fields pass. Throws `T4tError`. */
export function parseChatRequest(bytes: Uint8Array): ParsedRequest {
  const body = checkBody(chatBody, parseJson(bytes));
  const messages = body.messages.map(({ role, content }): ChatMessage => ({ role, content: plainText(content) }));
  return {
    ...parseShared(body),
    kind: "chat",
    prompts: [chatPrompt(messages)],
    maxTokens: body.max_completion_tokens ?? body.max_tokens ?? undefined,
  };
}

/** Reads the body of `POST /v1/completions`. Unknown fields pass. Throws `T4tError`. */
export function parseTextRequest(bytes: Uint8Array): ParsedRequest {
  const body = checkBody(textBody, parseJson(bytes));
  const prompts = textPrompts(body.prompt);
  const parsed = parseShared(body);
  if (prompts.length * parsed.answersPerPrompt > maxAnswers) {
    throw new T4tError("invalid_value", `more than ${maxAnswers} answers in one request`, { param: "n" });
  }
  // The API's old default.
  return { ...parsed, kind: "text", prompts, maxTokens: body.max_tokens ?? 16 };
}

function parseShared(body: SharedBody): Omit<ParsedRequest, "kind" | "prompts" | "maxTokens"> {
  const stream = body.stream ?? false;
  if (!stream && body.stream_options !== null && body.stream_options !== undefined) {
    throw new T4tError("invalid_value", "'stream_options' is only allowed when 'stream' is true", {
      param: "stream_options",
    });
  }
  return {
    model: body.model,
    stream,
    includeUsage: body.stream_options?.include_usage ?? false,
    answersPerPrompt: body.n ?? 1,
    minTokens: body.ignore_eos === true ? Number.MAX_SAFE_INTEGER : (body.min_tokens ?? 0),
    temperature: body.temperature ?? 1,
    topP: body.top_p ?? 1,
    seed: hashNumbers(Buffer.from(String(body.seed ?? 0))),
    stops: typeof body.stop === "string" ? [body.stop] : (body.stop ?? []),
  };
}

function textPrompts(prompt: z.infer<typeof textBody>["prompt"]): Token[][] {
  if (typeof prompt === "string") return [completionPrompt(prompt)];
  if (prompt.every((item) => typeof item === "number")) return [prompt];
  return prompt.map((item) => {
    if (typeof item === "string") return completionPrompt(item);
    return typeof item === "number" ? [item] : item;
  });
}

function plainText(content: z.infer<typeof message>["content"]): string {
  return typeof content === "string" ? content : (content ?? []).map(({ text }) => text).join("");
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new T4tError("invalid_json", "the body of the request is not valid JSON");
  }
}
