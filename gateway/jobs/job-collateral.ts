import { collateralFor, tokensPerPrice } from "../../protocol/money.ts";
import type { CompletionRequest } from "../openai/completion-request.ts";
import { atLeastDouble, atMostDouble, type JobCollateral, type OfferedTerms } from "../routing/stake.ts";
import { type EscrowPolicy, escrowAt, inputBoundAt, outputBoundAt } from "./escrow-plan.ts";

/** Far above the relative error of a dozen operations on doubles, and far below any difference of price that matters. */
const slack = 1e-12;

/**
 * Wei of its stake that one candidate's job would hold at least: a post for dearer candidates, too, locks more. Beside the exact amount
 * in whole wei there are bounds in doubles, because a decision judges thousands of offerings by them.
 */
export function jobCollateral(request: CompletionRequest, policy: EscrowPolicy): JobCollateral {
  const { collateralBps, minPayment } = policy;
  const factor =
    ((1000 + Math.ceil(policy.headroomRatio * 1000)) * collateralBps) / (Number(tokensPerPrice) * 1000 * 10_000);
  const ofLeastPayment = collateralFor(minPayment > 0n ? minPayment : 1n, collateralBps);
  const least = atLeastDouble(ofLeastPayment);
  const most = atMostDouble(ofLeastPayment);
  /** Before any rounding to whole wei. */
  const unrounded = (inputPrice: number, outputPrice: number, contextLength: number): number =>
    (inputBoundAt(request, contextLength) * inputPrice + outputBoundAt(request, contextLength, policy) * outputPrice) *
    factor;
  let last: { readonly terms: OfferedTerms; readonly wei: bigint } | undefined;
  return {
    // Those that doubles cannot tell apart from their stake are few, or all alike: at one price, with one stake.
    at: (terms: OfferedTerms) => {
      if (last === undefined || !isEqual(last.terms, terms)) {
        last = { terms, wei: collateralFor(escrowAt(request, terms, policy), collateralBps) };
      }
      return last.wei;
    },
    // The amount to lock is rounded up and its part down: together by less than one wei either way.
    atLeast: (input, output, context) => Math.max(least, unrounded(input, output, context) * (1 - slack) - 1),
    atMost: (input, output, context) => Math.max(most, unrounded(input, output, context) * (1 + slack) + 1),
  };
}

function isEqual(a: OfferedTerms, b: OfferedTerms): boolean {
  return a.inputPrice === b.inputPrice && a.outputPrice === b.outputPrice && a.contextLength === b.contextLength;
}
