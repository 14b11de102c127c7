import { T4tError } from "../../protocol/errors.ts";
import type { WaitOutcome } from "../capacity/capacity-lines.ts";
import type { CompletionKind, CompletionRequest } from "../openai/completion-request.ts";
import { publicMessage } from "../relay/public-message.ts";
import type { ExclusionReason, Selection } from "../routing/types.ts";
import type { ProviderRefusal } from "./provider-refusal.ts";

/** Quotes a model id for a message: it came from a client and may be anything. */
function quoted(modelId: string | undefined): string {
  return modelId === undefined ? "any model" : `the model '${publicMessage(modelId, "?").slice(0, 128)}'`;
}

/** The model is offered, but every provider of it has been silent for longer than the registry's time to live. */
export function noProviderOnlineError(modelId: string | undefined): T4tError {
  return new T4tError("no_provider_online", `No provider of ${quoted(modelId)} is online at the moment.`, {
    retryAfterSeconds: 30,
  });
}

/** Nobody can serve the request: why, in the client's terms. */
export function noCandidateError(
  { modelId, kind }: Pick<CompletionRequest, "modelId" | "kind">,
  selection: Pick<Selection, "excludedCounts">,
): T4tError {
  const reasons = Object.keys(selection.excludedCounts) as ExclusionReason[];
  // First what may pass: each of these stands for a provider whose price and context fit.
  if (reasons.some((reason) => reason === "no_statistic" || reason === "kv_full" || reason === "queue_over_limit")) {
    return new T4tError(
      "server_is_overloaded",
      `No provider of ${quoted(modelId)} reports what the routing strategy goes by. Try again later, or another strategy.`,
      { retryAfterSeconds: 10 },
    );
  }
  // Stake may be added any moment, and a smaller job needs less of it.
  if (reasons.includes("insufficient_stake")) return noTakerError();
  // It may be back any moment; whoever was deactivated, or is never called, has left.
  if (reasons.includes("stale")) return noProviderOnlineError(modelId);
  if (reasons.includes("context_too_small")) {
    return new T4tError(
      "context_length_exceeded",
      `The prompt and the requested answer together are longer than the context of every provider of ${quoted(modelId)}.`,
      { param: promptOf(kind) },
    );
  }
  if (reasons.includes("price_above_limit")) {
    return new T4tError(
      "model_not_found",
      `No provider offers ${quoted(modelId)} within the price limit of this gateway.`,
      {
        param: "model",
      },
    );
  }
  const message =
    reasons.length === 0
      ? `The model ${modelId === undefined ? "" : `'${publicMessage(modelId, "?").slice(0, 128)}' `}does not exist or is not offered by any provider.`
      : `No provider that may be used offers ${quoted(modelId)}.`;
  return new T4tError("model_not_found", message, { param: "model" });
}

/**
 * Outcomes of the line that are errors, as one public error each.
 * @param last The newest decision: what the wait was for.
 */
export function waitError(
  outcome: Exclude<WaitOutcome<unknown>, { kind: "granted" | "none" | "aborted" }>,
  modelId: string | undefined,
  last?: Pick<Selection, "excludedCounts" | "policy" | "reason">,
): T4tError {
  switch (outcome.kind) {
    case "full":
      return new T4tError(
        "server_is_overloaded",
        `Too many requests are waiting for ${quoted(modelId)}. Try again later.`,
        {
          retryAfterSeconds: 10,
        },
      );
    case "draining":
      return drainingError();
    case "timeout":
      return outcome.waitedMs === 0
        ? new T4tError("server_is_overloaded", `${standstill(modelId, last, "is", "chooses")} at the moment.`, {
            retryAfterSeconds: 5,
          })
        : new T4tError(
            "capacity_timeout",
            `${standstill(modelId, last, "was", "chose")} for ${Math.round(outcome.waitedMs / 1000)} s.`,
            { retryAfterSeconds: 30 },
          );
  }
}

/** Why nobody was chosen, as the beginning of a sentence that goes on with a time. */
function standstill(
  modelId: string | undefined,
  last: Pick<Selection, "excludedCounts" | "policy" | "reason"> | undefined,
  be: "is" | "was",
  choose: "chooses" | "chose",
): string {
  const left = last?.excludedCounts ?? {};
  const isFull = last === undefined || left.at_capacity !== undefined;
  if (isFull || left.draining !== undefined) {
    const byPolicy = left.no_statistic ?? left.kv_full ?? left.queue_over_limit;
    const who = byPolicy === undefined ? "" : " that the routing strategy allows";
    const what =
      left.draining === undefined ? "at capacity" : isFull ? "at capacity or shutting down" : "shutting down";
    return `Every provider of ${quoted(modelId)}${who} ${be} ${what}`;
  }
  return `The routing strategy '${last.policy}' ${choose} no provider of ${quoted(modelId)} (${last.reason})`;
}

export function drainingError(): T4tError {
  return new T4tError("server_draining", "The gateway is shutting down.", { retryAfterSeconds: 5 });
}

export function chainUnavailableError(cause?: unknown): T4tError {
  return new T4tError("chain_unavailable", "The gateway cannot reach its chain at the moment.", {
    retryAfterSeconds: 5,
    ...(cause === undefined ? {} : { cause }),
  });
}

/** The provider says that the request itself is bad: its backend's words, and its code and parameter where they are fit for it. */
export function rejectedError(refusal: ProviderRefusal, kind: CompletionKind): T4tError {
  const { param, backendCode } = refusal;
  const message = publicMessage(refusal.message, "The provider rejected the request.");
  if (backendCode === "context_length_exceeded") {
    return new T4tError("context_length_exceeded", message, { param: param ?? promptOf(kind) });
  }
  return new T4tError("upstream_rejected", message, {
    ...(param === undefined ? {} : { param }),
    ...(backendCode === undefined ? {} : { shownCode: backendCode }),
  });
}

/** The field that holds the prompt. */
function promptOf(kind: CompletionKind): string {
  return kind === "chat" ? "messages" : "prompt";
}

/** A provider broke its answer, or none answered. */
export function providerFaultError(reason: string, timedOut: boolean, started: boolean): T4tError {
  if (timedOut) return new T4tError("upstream_timeout", "The provider did not answer in time.");
  if (started) return new T4tError("upstream_error", "The provider broke off its answer.");
  return reason === "error_object"
    ? new T4tError("upstream_error", "The provider's backend reported an error.")
    : new T4tError("upstream_error", "The provider did not answer as it should.");
}

export function deadlineError(): T4tError {
  return new T4tError("upstream_timeout", "No provider answered within the time that the request has.");
}

export function escrowLimitError(): T4tError {
  return new T4tError(
    "escrow_limit_exceeded",
    "The request could cost more than this gateway allows for one job. Lower max_tokens or shorten the prompt.",
    { param: "max_tokens" },
  );
}

export function insufficientBalanceError(required: bigint, free: bigint): T4tError {
  return new T4tError(
    "insufficient_escrow_balance",
    `The gateway's escrow account cannot fund this job: it needs ${required} and has ${free} of the payment token's smallest unit.`,
  );
}

/** The chain gave the job to nobody, for reasons that the index cannot see. */
export function noTakerError(): T4tError {
  return new T4tError("server_is_overloaded", "No provider could take a job of this size at the moment.", {
    retryAfterSeconds: 10,
  });
}

export function unfundedWalletError(): T4tError {
  return new T4tError(
    "insufficient_escrow_balance",
    "The gateway's wallet holds none of the chain's coin (ETH), so it cannot pay the gas of the transactions that a job needs.",
  );
}
