import OpenAI from "openai";
import type { Address, Hex } from "viem";
import type { ProgressEvent } from "../../protocol/progress.ts";
import type { Usage } from "../../protocol/usage.ts";
import { jobEvents, sseFrames } from "./job-events.ts";

/** How one job of the demonstration went. */
export interface DemonstratedJob {
  readonly jobId: Hex;
  readonly provider: Address;
  readonly usage: Usage;
  /** Paid to the provider, in the token's smallest unit. */
  readonly paid: bigint;
  readonly transactions: { readonly post: Hex; readonly complete: Hex };
  readonly text: string;
}

/** Where the demonstration shows what happens. */
export interface DemonstrationOutput {
  progress(client: string, event: ProgressEvent): void;
  text(client: string, text: string): void;
}

/** The demonstrated job did not end as it should. */
export class DemonstrationError extends Error {
  override readonly name = "DemonstrationError";
}

/** The gateway that is shown, and the key that it asks for. */
export interface DemonstratedGateway {
  readonly url: string;
  /** Any text does for a gateway without keys. */
  readonly apiKey: string;
}

/** An unmodified OpenAI client streams one answer through the gateway; resolves when the job is settled on chain. */
export async function streamOneJob(
  gateway: DemonstratedGateway,
  request: { readonly model: string; readonly prompt: string; readonly maxTokens: number },
  output: DemonstrationOutput,
): Promise<DemonstratedJob> {
  const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.apiKey, maxRetries: 0 });
  const { data: stream, response } = await client.chat.completions
    .create({
      model: request.model,
      messages: [{ role: "user", content: request.prompt }],
      max_completion_tokens: request.maxTokens,
      stream: true,
      stream_options: { include_usage: true },
    })
    .withResponse();
  const id = response.headers.get("x-t4t-job-id");
  if (id === null) throw new DemonstrationError("the gateway's answer names no job (x-t4t-job-id)");
  const acknowledged = Promise.withResolvers<void>();
  const end = followJob(gateway, id, (event) => {
    output.progress("client", event);
    if (event.type === "provider_acked") acknowledged.resolve();
  });
  end.then(
    () => acknowledged.resolve(),
    () => acknowledged.resolve(),
  );
  let text = "";
  for await (const chunk of stream) {
    const piece = chunk.choices[0]?.delta.content ?? "";
    text += piece;
    // The events come over a connection of their own: shown in the order in which they happened.
    await acknowledged.promise;
    if (piece !== "") output.text("client", piece);
  }
  return { ...(await end), text };
}

/** Follows a job until it is settled. Throws `DemonstrationError` when it fails or the events end early. */
async function followJob(
  { url, apiKey }: DemonstratedGateway,
  id: string,
  onEvent: (event: ProgressEvent) => void,
): Promise<Omit<DemonstratedJob, "text">> {
  let post: Hex | undefined;
  for await (const event of jobEvents(url, id, { apiKey })) {
    onEvent(event);
    if (event.type === "job_posted") post = event.transactionHash;
    if (event.type === "failed") throw new DemonstrationError(`the job failed: ${event.code}: ${event.message}`);
    if (event.type === "settled" && post !== undefined) {
      return {
        jobId: event.jobId,
        provider: event.provider,
        usage: event.usage,
        paid: BigInt(event.payment),
        transactions: { post, complete: event.transactionHash },
      };
    }
  }
  throw new DemonstrationError(`the events of job ${id} ended before it was settled`);
}

/** What the two clients of `waitInLine` saw. */
export interface WaitedInLine {
  /** Milliseconds from the second client's first word of waiting to its turn. */
  readonly waitedMs: number;
  readonly waitingEvents: number;
}

/**
 * Two clients want the only slot of a model at once. The first streams through the OpenAI route; the second uses the job route, so
 * its progress is visible: it waits in line and is served when the slot is free.
 */
export async function waitInLine(
  gateway: DemonstratedGateway,
  request: { readonly model: string; readonly prompt: string; readonly maxTokens: number },
  output: DemonstrationOutput,
): Promise<WaitedInLine> {
  const openai = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.apiKey, maxRetries: 0 });
  const messages = [{ role: "user" as const, content: request.prompt }];
  const first = await openai.chat.completions.create({
    model: request.model,
    messages,
    max_completion_tokens: request.maxTokens,
    stream: true,
  });
  const second = secondClient(
    gateway,
    { model: request.model, messages, max_completion_tokens: request.maxTokens, stream: true },
    output,
  );
  second.catch(() => undefined);
  let tokens = 0;
  for await (const chunk of first) tokens += (chunk.choices[0]?.delta.content ?? "") === "" ? 0 : 1;
  if (tokens === 0) throw new DemonstrationError("the first client got no token");
  return await second;
}

async function secondClient(
  { url, apiKey }: DemonstratedGateway,
  request: object,
  output: DemonstrationOutput,
): Promise<WaitedInLine> {
  const response = await fetch(`${url}/v1/jobs`, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "text/event-stream", authorization: `Bearer ${apiKey}` },
    body: JSON.stringify({ request }),
  });
  let waitingSince: number | undefined;
  let waitedMs = 0;
  let waitingEvents = 0;
  for await (const frame of sseFrames(response)) {
    if (frame.event === undefined || frame.data === undefined) continue;
    const event = { ...(JSON.parse(frame.data) as object), type: frame.event } as
      | ProgressEvent
      | { readonly type: "chunk" };
    if (event.type === "chunk") continue;
    output.progress("second client", event);
    if (event.type === "waiting_for_capacity") {
      waitingEvents += 1;
      waitingSince ??= performance.now();
    } else if (event.type === "provider_selected" && waitingSince !== undefined) {
      waitedMs = performance.now() - waitingSince;
    }
    if (event.type === "failed")
      throw new DemonstrationError(`the second client's job failed: ${event.code}: ${event.message}`);
    if (event.type === "settled") return { waitedMs, waitingEvents };
  }
  throw new DemonstrationError("the second client's events ended before its job was settled");
}
