import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { sseContentType } from "../../protocol/sse.ts";
import { complete, type Completion, type Pace, type TokenHook } from "./completion.ts";
import type { Counters } from "./counters.ts";
import type { Engine } from "./engine.ts";
import { sendJson } from "./http-exchange.ts";
import {
  type Answer,
  answerBody,
  doneFrame,
  type FrameContext,
  FrameWriter,
  timingsBody,
  type TimingsBody,
  usageBody,
  type UsageBody,
} from "./openai-frames.ts";
import type { ParsedRequest } from "./openai-request.ts";
import { hashNumbers } from "./seeded-random.ts";

/** One request's answers, from the engine to the socket. */
export interface AnswerJob {
  readonly engine: Engine;
  readonly parsed: ParsedRequest;
  readonly context: FrameContext;
  readonly pace: Pace;
  readonly counters: Counters;
  readonly beforeToken: TokenHook | undefined;
  /** Number of the request at this backend, from 1. */
  readonly request: number;
  readonly requestId: string;
  readonly signal: AbortSignal;
}

/** Writes the answers as SSE frames as they come. Throws what `complete` throws. */
export async function streamAnswers(job: AnswerJob, response: ServerResponse): Promise<void> {
  const { parsed, context, signal } = job;
  const frames = new FrameWriter(context, parsed.includeUsage);
  response.writeHead(200, { "content-type": sseContentType, "cache-control": "no-cache" });
  response.flushHeaders();
  const write = (frame: string): void | Promise<void> => {
    if (response.write(frame)) return;
    return once(response, "drain", { signal }).then(() => undefined);
  };
  const { usage } = await writeAnswers(job, {
    start: (index) => {
      if (parsed.kind === "chat") return write(frames.role(index));
    },
    text: (index, text) => write(frames.text(index, text)),
    finish: (index, reason) => write(frames.finish(index, reason)),
  });
  if (parsed.includeUsage) await write(frames.usage(usage));
  response.end(doneFrame);
}

/** Writes the answers as one JSON body when all are there. Throws what `complete` throws. */
export async function collectAnswers(job: AnswerJob, response: ServerResponse): Promise<void> {
  const answers: Answer[] = [];
  let parts: string[] = [];
  const { usage, timings } = await writeAnswers(job, {
    start: () => {
      parts = [];
    },
    text: (_index, text) => {
      parts.push(text);
    },
    finish: (index, finishReason) => {
      answers.push({ index, text: parts.join(""), finishReason });
    },
  });
  sendJson(response, 200, answerBody(job.context, answers, usage, timings));
}

/** Where the answers go; everything is awaited. */
interface AnswerSink {
  readonly start: (index: number) => void | Promise<void>;
  readonly text: (index: number, text: string) => void | Promise<void>;
  readonly finish: (index: number, reason: Completion["finishReason"]) => void | Promise<void>;
}

/** What all answers of a request came to. */
interface Totals {
  readonly usage: UsageBody;
  /** Of the only answer; undefined where there are several, as the object tells of one. */
  readonly timings: TimingsBody | undefined;
}

/** All answers of a request, one after another: a request has one slot. */
async function writeAnswers(job: AnswerJob, sink: AnswerSink): Promise<Totals> {
  const { parsed, counters } = job;
  const isOnly = parsed.prompts.length * parsed.answersPerPrompt === 1;
  let timings: TimingsBody | undefined;
  let promptTokens = 0;
  let completionTokens = 0;
  let cachedTokens = 0;
  for (const [place, prompt] of parsed.prompts.entries()) {
    promptTokens += prompt.length;
    counters.promptTokens += prompt.length;
    for (let answer = 0; answer < parsed.answersPerPrompt; answer += 1) {
      const completion = await writeOne(job, sink, place, answer);
      completionTokens += completion.completionTokens;
      if (isOnly) timings = timingsBody(prompt.length, completion);
      // A prompt counts once, so what its first reading found known counts too.
      if (answer > 0) continue;
      cachedTokens += completion.cachedTokens;
      counters.cachedTokens += completion.cachedTokens;
    }
  }
  return { usage: usageBody(promptTokens, completionTokens, cachedTokens), timings };
}

async function writeOne(job: AnswerJob, sink: AnswerSink, place: number, answer: number): Promise<Completion> {
  const { engine, parsed, request, requestId, signal } = job;
  const prompt = parsed.prompts[place] ?? [];
  const choice = place * parsed.answersPerPrompt + answer;
  const room = engine.contextLength - prompt.length;
  const maxTokens = Math.min(parsed.maxTokens ?? room, room);
  await sink.start(choice);
  const completion = await complete(engine, {
    prompt,
    maxTokens,
    minTokens: Math.min(parsed.minTokens, maxTokens),
    temperature: parsed.temperature,
    topP: parsed.topP,
    seed: answer === 0 ? parsed.seed : hashNumbers([answer], parsed.seed),
    stops: parsed.stops,
    signal,
    pace: job.pace,
    beforeToken: (index) => job.beforeToken?.({ request, requestId, model: parsed.model, choice, index, signal }),
    onText: (text) => sink.text(choice, text),
    onToken: () => {
      job.counters.completionTokens += 1;
    },
  });
  await sink.finish(choice, completion.finishReason);
  return completion;
}
