import { createHash, type Hash } from "node:crypto";
import type { Hex } from "viem";

/** SHA-256 of the exact bytes of a request or response body, as the bytes32 that authorisations, receipts and events carry. */
export function bodyHash(body: Uint8Array | string): Hex {
  return `0x${createHash("sha256").update(body).digest("hex")}`;
}

/** The same hash over a body that arrives in pieces. */
export class BodyHasher {
  readonly #hash: Hash = createHash("sha256");

  /** Adds the next piece, in order. */
  update(chunk: Uint8Array): void {
    this.#hash.update(chunk);
  }

  /** Ends the hash; the hasher cannot be used afterwards. */
  digest(): Hex {
    return `0x${this.#hash.digest("hex")}`;
  }
}
