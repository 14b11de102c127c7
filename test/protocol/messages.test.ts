import { expect } from "chai";
import {
  type Address,
  type Hex,
  hashStruct,
  hashTypedData,
  keccak256,
  recoverTypedDataAddress,
  stringToBytes,
} from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import {
  acknowledgementTypedData,
  authorizationTypedData,
  type MessageDomain,
  messageTypes,
  providerStatusTypedData,
  receiptTypedData,
  typedDataDomain,
  usageStatementTypedData,
} from "../../protocol/messages.ts";

const domain: MessageDomain = { chainId: 31337, escrow: "0x00000000000000000000000000000000000000e5" };
const jobId: Hex = `0x${"11".repeat(32)}`;
const hash: Hex = `0x${"22".repeat(32)}`;
const provider: Address = "0x00000000000000000000000000000000000000a1";
const delivered = { jobId, provider, usage: { inputTokens: 7, outputTokens: 9 }, responseHash: hash };

/** The type string as EIP-712 writes it. */
function typeString(name: keyof typeof messageTypes): string {
  return `${name}(${messageTypes[name].map((field) => `${field.type} ${field.name}`).join(",")})`;
}

describe("EIP-712 messages", () => {
  it("have the type strings that the escrow documents, so that a signature made here is valid there", () => {
    expect(typeString("Receipt")).to.equal(
      "Receipt(bytes32 jobId,address provider,uint64 inputTokens,uint64 outputTokens,bytes32 responseHash)",
    );
    expect(typeString("Acknowledgement")).to.equal(
      "Acknowledgement(bytes32 jobId,address provider,bytes32 requestHash)",
    );
  });

  it("put their purpose into the type hash: a usage statement with the same fields is no receipt", () => {
    const statement = usageStatementTypedData(domain, delivered);
    const receipt = receiptTypedData(domain, delivered);
    expect(hashTypedData(statement)).to.not.equal(hashTypedData(receipt));
    const hashes = Object.keys(messageTypes).map((name) =>
      keccak256(stringToBytes(typeString(name as keyof typeof messageTypes))),
    );
    expect(new Set(hashes).size).to.equal(hashes.length);
  });

  it("are bound to chain and escrow: another of either gives another hash", () => {
    const here = hashTypedData(receiptTypedData(domain, delivered));
    expect(hashTypedData(receiptTypedData({ ...domain, chainId: 1 }, delivered))).to.not.equal(here);
    expect(hashTypedData(receiptTypedData({ ...domain, escrow: provider }, delivered))).to.not.equal(here);
    expect(typedDataDomain(domain)).to.deep.equal({
      name: "T4T JobEscrow",
      version: "1",
      chainId: 31337,
      verifyingContract: domain.escrow,
    });
  });

  it("commit to every field", () => {
    const base = hashStruct({
      ...receiptTypedData(domain, delivered),
      data: receiptTypedData(domain, delivered).message,
    });
    const others = [
      { ...delivered, jobId: hash },
      { ...delivered, provider: domain.escrow },
      { ...delivered, usage: { inputTokens: 8, outputTokens: 9 } },
      { ...delivered, usage: { inputTokens: 7, outputTokens: 10 } },
      { ...delivered, responseHash: jobId },
    ].map((message) => {
      const data = receiptTypedData(domain, message);
      return hashStruct({ ...data, data: data.message });
    });
    expect(new Set([base, ...others]).size).to.equal(6);
  });

  it("are recovered to the signer, each kind", async () => {
    const account = privateKeyToAccount(generatePrivateKey());
    const signed = [
      receiptTypedData(domain, delivered),
      usageStatementTypedData(domain, delivered),
      acknowledgementTypedData(domain, { jobId, provider, requestHash: hash }),
      authorizationTypedData(domain, { jobId, requestHash: hash, expiresAt: 1_900_000_000 }),
      providerStatusTypedData(domain, { provider, issuedAt: 1_900_000_000_000, bodyHash: hash }),
    ];
    for (const data of signed) {
      // Each element has its own primary type; viem's generics take one at a time.
      const typed = data as ReturnType<typeof receiptTypedData>;
      const signature = await account.signTypedData(typed);
      expect(await recoverTypedDataAddress({ ...typed, signature })).to.equal(account.address);
    }
  });
});
