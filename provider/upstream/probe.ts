import { createHash } from "node:crypto";
import { type BackendConnection, backendFailure } from "./connection.ts";
import { readEngineFacts } from "./engine-metrics.ts";
import type { ProbeResult } from "./health.ts";
import { parseObject } from "./usage-meter.ts";

const probeTimeoutMs = 5_000;
/** Bound of a probe's answer: the backend is ours, but it may be misconfigured to be anything. */
const maxAnswerBytes = 4 * 1024 * 1024;

/** What a probe learnt beside the health. */
export interface ProbedFacts {
  readonly kvFreeTokens: number | undefined;
}

/**
 * Asks a backend whether it works: `/health` where it has one, else `/v1/models`; then, where it has them, its models and its metrics
 * for the identity of process and models.
 */
export class BackendProbe {
  readonly #connection: BackendConnection;
  readonly #found: (facts: ProbedFacts) => void;
  #hasMetrics: boolean | undefined;

  /** @param found Given the facts of each good probe. */
  constructor(connection: BackendConnection, found: (facts: ProbedFacts) => void) {
    this.#connection = connection;
    this.#found = found;
  }

  /** One probe; never rejects. */
  async run(): Promise<ProbeResult> {
    try {
      const health = await this.#get("/health");
      const models = await this.#get("/v1/models");
      if (isGood(health.status) || (isAbsent(health.status) && isGood(models.status))) {
        return await this.#good(isGood(models.status) ? models.text : undefined);
      }
      const status = isAbsent(health.status) ? models.status : health.status;
      const isRefused = status === 401 || status === 403;
      return {
        healthy: false,
        reason: isRefused ? "the backend refuses the API key" : `the backend answers ${status}`,
      };
    } catch (error) {
      return { healthy: false, reason: `the backend is ${backendFailure(error)}` };
    }
  }

  async #good(modelsText: string | undefined): Promise<ProbeResult> {
    const facts = await this.#facts();
    this.#found({ kvFreeTokens: facts?.kvFreeTokens });
    return {
      healthy: true,
      process: facts?.process,
      models: modelsText === undefined ? undefined : modelsIdentity(modelsText),
    };
  }

  async #facts(): Promise<ReturnType<typeof readEngineFacts> | undefined> {
    if (this.#hasMetrics === false) return undefined;
    try {
      const page = await this.#get("/metrics");
      this.#hasMetrics = isGood(page.status);
      return this.#hasMetrics ? readEngineFacts(page.text) : undefined;
    } catch {
      return undefined;
    }
  }

  async #get(path: string): Promise<{ readonly status: number; readonly text: string }> {
    const response = await this.#connection.call({
      method: "GET",
      path,
      signal: AbortSignal.timeout(probeTimeoutMs),
      headersTimeoutMs: probeTimeoutMs,
      bodyTimeoutMs: probeTimeoutMs,
    });
    const pieces: Buffer[] = [];
    let bytes = 0;
    for await (const piece of response.body as AsyncIterable<Buffer>) {
      bytes += piece.length;
      if (bytes > maxAnswerBytes) break;
      pieces.push(piece);
    }
    return { status: response.statusCode, text: Buffer.concat(pieces).toString("utf8") };
  }
}

function isGood(status: number): boolean {
  return status >= 200 && status < 300;
}

function isAbsent(status: number): boolean {
  return status === 404 || status === 405 || status === 501;
}

/** Hash of what names the served models; fields that differ from one answer to the next are left out. */
function modelsIdentity(text: string): string | undefined {
  const data = parseObject(text)?.data;
  if (!Array.isArray(data)) return undefined;
  const models = (data as unknown[]).map((model) => {
    if (typeof model !== "object" || model === null) return model;
    const { id, root, parent, owned_by: owner, meta } = model as Record<string, unknown>;
    return { id, root, parent, owner, meta };
  });
  return createHash("sha256").update(JSON.stringify(models)).digest("base64url").slice(0, 16);
}
