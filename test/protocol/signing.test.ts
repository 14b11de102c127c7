import { expect } from "chai";
import fc from "fast-check";
import { bytesToHex, type Hex, keccak256, numberToHex, parseTransaction, recoverTransactionAddress } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { receiptTypedData } from "../../protocol/messages.ts";
import { accountFromKey, InvalidKeyError, recoverSigner } from "../../protocol/signing.ts";

const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
const key = fc.bigInt({ min: 1n, max: order - 1n }).map((value) => numberToHex(value, { size: 32 }));
const hash = fc.uint8Array({ minLength: 1, maxLength: 64 }).map((bytes) => keccak256(bytes));

describe("signing", () => {
  it("gives the signatures that viem gives, so that an independent implementation vouches for each", async () => {
    await fc.assert(
      fc.asyncProperty(key, hash, async (privateKey, digest) => {
        const ours = accountFromKey(privateKey);
        const viems = privateKeyToAccount(privateKey);
        expect(ours.address).to.equal(viems.address);
        const signature = await ours.sign?.({ hash: digest });
        expect(signature).to.equal(await viems.sign({ hash: digest }));
        expect(recoverSigner(digest, signature ?? "0x")).to.equal(ours.address);
      }),
      { numRuns: 40 },
    );
  });

  it("signs typed data, messages and transactions as viem does", async () => {
    const privateKey = numberToHex(7n, { size: 32 });
    const ours = accountFromKey(privateKey);
    const viems = privateKeyToAccount(privateKey);
    const data = receiptTypedData(
      { chainId: 5, escrow: ours.address },
      {
        jobId: keccak256("0x01"),
        provider: ours.address,
        usage: { inputTokens: 3, outputTokens: 4 },
        responseHash: keccak256("0x02"),
      },
    );
    expect(await ours.signTypedData(data)).to.equal(await viems.signTypedData(data));
    expect(await ours.signMessage({ message: "hello" })).to.equal(await viems.signMessage({ message: "hello" }));
    const transaction = {
      type: "eip1559",
      chainId: 31337,
      nonce: 4,
      to: ours.address,
      data: "0x1234",
      gas: 50_000n,
      maxFeePerGas: 10n,
      maxPriorityFeePerGas: 1n,
    } as const;
    const raw = await ours.signTransaction(transaction);
    expect(raw).to.equal(await viems.signTransaction(transaction));
    expect(await recoverTransactionAddress({ serializedTransaction: raw as `0x02${string}` })).to.equal(ours.address);
    expect(parseTransaction(raw)).to.include({ nonce: 4 });
  });

  it("recognises no signature that the contracts would refuse: malleable, short, long, compact, or with another v", async () => {
    const account = accountFromKey(numberToHex(9n, { size: 32 }));
    const digest = keccak256("0x55");
    const signature = (await account.sign?.({ hash: digest })) ?? "0x";
    const s = BigInt(`0x${signature.slice(66, 130)}`);
    const twin = `${signature.slice(0, 66)}${numberToHex(order - s, { size: 32 }).slice(2)}${signature.endsWith("1b") ? "1c" : "1b"}`;
    for (const bad of [
      twin as Hex,
      signature.slice(0, -2) as Hex,
      `${signature}00` as Hex,
      `${signature.slice(0, -2)}00` as Hex,
      `${signature.slice(0, -2)}1d` as Hex,
      bytesToHex(new Uint8Array(65)),
      "0x" as Hex,
    ]) {
      expect(recoverSigner(digest, bad), bad).to.equal(undefined);
    }
  });

  it("refuses a key that is none without repeating it", () => {
    for (const bad of ["0x00", numberToHex(0, { size: 32 }), numberToHex(order, { size: 32 }), "0xsecret"] as Hex[]) {
      expect(() => accountFromKey(bad))
        .to.throw(InvalidKeyError)
        .with.property("message")
        .that.does.not.include("secret");
    }
  });
});
