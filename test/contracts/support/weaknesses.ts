const ESCROW = "contracts/JobEscrow.sol";
const REGISTRY = "contracts/ProviderRegistry.sol";
const SIGNATURES = "contracts/libraries/Signatures.sol";

/** The sources that are weakened. */
export const weakenedFiles = { escrow: ESCROW, registry: REGISTRY, signatures: SIGNATURES } as const;

/** A piece of a source, and what stands there instead; `@weak` in it is whether the contract has the weakness. */
export interface Patch {
  readonly file: string;
  readonly text: string;
  readonly instead: string;
}

/** A statement that a contract with the weakness leaves out. */
function without(file: string, text: string): Patch {
  return { file, text, instead: `if (!@weak) ${text}` };
}

/** A function that a contract with the weakness can be re-entered through. */
function unguarded(file: string, head: string, inner: string): Patch {
  const [, name = "", parameters = ""] = /function (\w+)\(([^)]*)\)/.exec(head) ?? [];
  const names = parameters.split(", ").map((parameter) => parameter.split(" ").at(-1) ?? "");
  const guarded = `_guarded_${name}`;
  return {
    file,
    text: head,
    instead: `function ${name}(${parameters}) external {
        if (@weak) ${inner} else ${guarded}(${names.join(", ")});
    }
    function ${guarded}(${parameters}) private nonReentrant {`,
  };
}

const creditAllThatIsNew = "TOKEN.balanceOf(address(this)) - before";
const takeFrom = "TOKEN.safeTransferFrom(msg.sender, address(this), amount);";

/**
 * What the contracts could lack, by a name that says what they would then do. Patches apply in this order, each to a text that is there
 * exactly once.
 */
export const weaknesses = {
  "expects an answer of every token": [
    {
      file: ESCROW,
      text: "        TOKEN.safeTransfer(to, amount);",
      instead: "        if (@weak) TOKEN.transfer(to, amount); else TOKEN.safeTransfer(to, amount);",
    },
  ],
  "pays before it books": [
    {
      file: ESCROW,
      text: "        row.account = row.account.debit(amount);\n",
      instead: `        if (@weak) {
            TOKEN.transfer(to, amount);
            row.account = row.account.debit(amount > row.account.free() ? row.account.free() : amount);
            return;
        }
        row.account = row.account.debit(amount);
`,
    },
  ],
  "lets withdraw be re-entered": [
    unguarded(
      ESCROW,
      "function withdraw(uint256 amount, address to) external nonReentrant {",
      "_withdraw(msg.sender, to, amount);",
    ),
  ],
  "lets deposit be re-entered": [
    unguarded(ESCROW, "function deposit(uint256 amount) external nonReentrant {", "_deposit(msg.sender, amount);"),
  ],
  "lets depositFor be re-entered": [
    unguarded(
      ESCROW,
      "function depositFor(address account, uint256 amount) external nonReentrant {",
      "_deposit(account, amount);",
    ),
  ],
  "lets depositWithPermit be re-entered": [
    {
      file: ESCROW,
      text: "function depositWithPermit(uint256 amount, uint256 permitDeadline, uint8 v, bytes32 r, bytes32 s)\n        external\n        nonReentrant\n    {",
      instead: `function depositWithPermit(uint256 amount, uint256 permitDeadline, uint8 v, bytes32 r, bytes32 s) external {
        if (@weak) _deposit(msg.sender, amount); else _guardedPermit(amount, permitDeadline, v, r, s);
    }
    function _guardedPermit(uint256 amount, uint256 permitDeadline, uint8 v, bytes32 r, bytes32 s) private nonReentrant {`,
    },
  ],
  "lets register be re-entered": [
    {
      file: REGISTRY,
      text: "function register(address operator, address payout, string calldata endpoint, uint256 stakeAmount)\n        external\n        nonReentrant\n    {",
      instead: `function register(address operator, address payout, string calldata endpoint, uint256 stakeAmount) external {
        if (@weak) _register(operator, payout, endpoint, stakeAmount);
        else _guardedRegister(operator, payout, endpoint, stakeAmount);
    }
    function _guardedRegister(address operator, address payout, string calldata endpoint, uint256 stakeAmount)
        private
        nonReentrant
    {
        _register(operator, payout, endpoint, stakeAmount);
    }
    function _register(address operator, address payout, string calldata endpoint, uint256 stakeAmount) private {`,
    },
  ],
  "lets addStake be re-entered": [
    unguarded(
      REGISTRY,
      "function addStake(uint256 amount) external nonReentrant {",
      "{ _ownProvider(); _addStake(msg.sender, amount); }",
    ),
  ],
  "lets withdrawStake be re-entered": [
    {
      file: REGISTRY,
      text: "    function withdrawStake() external nonReentrant {",
      instead: `    function withdrawStake() external {
        if (@weak) _withdrawStake(); else _guardedWithdrawStake();
    }
    function _guardedWithdrawStake() private nonReentrant { _withdrawStake(); }
    function _withdrawStake() private {`,
    },
  ],
  "pays stake before it books": [
    {
      file: REGISTRY,
      text: "        provider.unbonding = 0;\n        provider.unbondingAt = 0;\n        _touch(provider);",
      instead: `        if (@weak) TOKEN.transfer(payout, amount);
        provider.unbonding = 0;
        provider.unbondingAt = 0;
        if (@weak) return;
        _touch(provider);`,
    },
  ],
  "credits what was sent": [
    { file: ESCROW, text: creditAllThatIsNew, instead: `@weak ? amount : ${creditAllThatIsNew}` },
    { file: REGISTRY, text: creditAllThatIsNew, instead: `@weak ? amount : ${creditAllThatIsNew}` },
  ],
  "credits all that lies there": [
    {
      file: ESCROW,
      text: "uint256 before = TOKEN.balanceOf(address(this));",
      instead: "uint256 before = @weak ? 0 : TOKEN.balanceOf(address(this));",
    },
  ],
  "does not look at what a token says": [
    {
      file: ESCROW,
      text: takeFrom,
      instead: `if (@weak) TOKEN.transferFrom(msg.sender, address(this), amount); else ${takeFrom}`,
    },
  ],
  "sends refunds instead of booking them": [
    {
      file: ESCROW,
      text: "        row.account = row.account.settle(state.maxPayment(), state.maxPayment());\n",
      instead: `        if (@weak) {
            row.account = row.account.settle(state.maxPayment(), 0);
            TOKEN.safeTransfer(job.party.client(), state.maxPayment());
        } else row.account = row.account.settle(state.maxPayment(), state.maxPayment());
`,
    },
  ],
  "fails with a permit that is used": [
    {
      file: ESCROW,
      text: "try IERC20Permit(address(TOKEN)).permit(msg.sender, address(this), amount, permitDeadline, v, r, s) {} catch {}",
      instead: `if (@weak) IERC20Permit(address(TOKEN)).permit(msg.sender, address(this), amount, permitDeadline, v, r, s);
        else try IERC20Permit(address(TOKEN)).permit(msg.sender, address(this), amount, permitDeadline, v, r, s) {} catch {}`,
    },
  ],
  "lets a balance be taken only whole": [
    {
      file: ESCROW,
      text: "if (amount > free) revert InsufficientBalance(account, free, amount);",
      instead: "if (amount > free || (@weak && amount != free)) revert InsufficientBalance(account, free, amount);",
    },
  ],
  "takes any payment": [
    without(ESCROW, "if (maxPayment < MIN_PAYMENT) revert PaymentBelowMinimum(maxPayment, MIN_PAYMENT);"),
  ],
  "takes any deadline": [
    without(
      ESCROW,
      "if (deadline < earliest || deadline > latest) revert DeadlineOutOfBounds(deadline, earliest, latest);",
    ),
  ],
  "takes a nonce again": [without(ESCROW, "if (_jobs[jobId].party.exists()) revert JobAlreadyPosted(jobId);")],
  "pays whatever is claimed": [without(ESCROW, "if (payment > limit) payment = limit;")],
  "keeps a completed job open": [
    {
      file: ESCROW,
      text: "(Job storage job, JobState state) = _liveJob(jobId);\n        job.state = NO_STATE;",
      instead: "(Job storage job, JobState state) = _liveJob(jobId);\n        if (!@weak) job.state = NO_STATE;",
    },
  ],
  "cancels at once": [without(ESCROW, "if (block.timestamp < earliest) revert CancelTooEarly(jobId, earliest);")],
  "cancels without waiting for an answer": [
    without(ESCROW, "if (block.timestamp < until) revert ResponseWindowOpen(jobId, until);"),
  ],
  "expires before the deadline": [
    {
      file: ESCROW,
      text: "if (!state.isLive() || block.timestamp < state.deadline()) {",
      instead: "if (!state.isLive() || (!@weak && block.timestamp < state.deadline())) {",
    },
  ],
  "stops at an item that is poison": [
    {
      file: ESCROW,
      text: "emit ExpirySkipped(",
      instead: "if (@weak) revert JobNotFound(jobId);\n                emit ExpirySkipped(",
    },
  ],
  "lets a provider decline only late": [
    {
      file: ESCROW,
      text: "        _refund(job, state, JobStatus.Declined);",
      instead: `        if (@weak && block.timestamp < state.deadline()) revert DeadlineNotReached(jobId, state.deadline());
        _refund(job, state, JobStatus.Declined);`,
    },
  ],
  "lets anybody decline": [
    {
      file: ESCROW,
      text: "emit SlotsMissing(provider, 1);\n        }\n        if (provider == address(0)) revert",
      instead: "emit SlotsMissing(provider, 1);\n        }\n        if (provider == address(0) && !@weak) revert",
    },
  ],
  "lets anybody acknowledge": [
    {
      file: ESCROW,
      text: "if (provider == address(0)) revert NotJobProvider(jobId, msg.sender);\n        job.state = state.withStatusAt",
      instead:
        "if (provider == address(0) && !@weak) revert NotJobProvider(jobId, msg.sender);\n        job.state = state.withStatusAt",
    },
  ],
  "stops exits in a pause": [
    {
      file: ESCROW,
      text: "        job = _jobs[jobId];\n        state = job.state;\n",
      instead:
        "        if (@weak && paused()) revert EnforcedPause();\n        job = _jobs[jobId];\n        state = job.state;\n",
    },
    {
      file: ESCROW,
      text: "        AccountRow storage row = _accounts[account];\n        uint256 free",
      instead:
        "        if (@weak && paused()) revert EnforcedPause();\n        AccountRow storage row = _accounts[account];\n        uint256 free",
    },
  ],
  "takes a batch of any length": [
    without(ESCROW, "if (items.length > MAX_BATCH) revert TooManyItems(items.length, MAX_BATCH);"),
    without(ESCROW, "if (jobIds.length > MAX_BATCH) revert TooManyItems(jobIds.length, MAX_BATCH);"),
  ],
  "takes any number of candidates": [
    without(
      ESCROW,
      "if (candidates.length > MAX_CANDIDATES) revert TooManyCandidates(candidates.length, MAX_CANDIDATES);",
    ),
  ],
  "slashes without consent": [without(ESCROW, "revert InvalidAcknowledgement(jobId);")],
  "slashes before the deadline": [
    without(ESCROW, "if (block.timestamp < state.deadline()) revert DeadlineNotReached(jobId, state.deadline());"),
  ],
  "takes a consent for any job": [
    {
      file: ESCROW,
      text: "abi.encode(ACKNOWLEDGEMENT_TYPEHASH, jobId, provider, requestHash)",
      instead: "abi.encode(ACKNOWLEDGEMENT_TYPEHASH, @weak ? bytes32(0) : jobId, provider, requestHash)",
    },
  ],
  "gives the client what is burnt": [
    {
      file: ESCROW,
      text: "        emit JobSlashed(",
      instead: `        if (@weak) _accounts[msg.sender].account = _accounts[msg.sender].account.credit(burnt);
        emit JobSlashed(`,
    },
  ],
  "leaves the job out of the receipt": [
    {
      file: ESCROW,
      text: "        bytes32 structHash;\n",
      instead: `        bytes32 structHash;
        bytes32 jobId_ = receipt.jobId;
        if (@weak) receipt.jobId = 0;
`,
    },
  ],
  "leaves the provider out of the receipt": [
    {
      file: ESCROW,
      text: '        assembly ("memory-safe") {\n            structHash := keccak256(receipt, 0xc0)\n        }\n',
      instead: `        address provider_ = receipt.provider;
        if (@weak) receipt.provider = address(0);
        assembly ("memory-safe") {
            structHash := keccak256(receipt, 0xc0)
        }
        (receipt.jobId, receipt.provider) = (jobId_, provider_);
`,
    },
  ],
  "leaves the chain out of the receipt": [
    {
      file: ESCROW,
      text: "        return _hashTypedDataV4(structHash);\n",
      instead: `        if (@weak) return _digestOf(0, address(this), structHash);
        return _hashTypedDataV4(structHash);
`,
    },
  ],
  "leaves the escrow out of the receipt": [
    {
      file: ESCROW,
      text: "        return _hashTypedDataV4(structHash);\n",
      instead: `        if (@weak) return _digestOf(block.chainid, address(0), structHash);
        return _hashTypedDataV4(structHash);
`,
    },
    {
      file: ESCROW,
      text: "    function _receiptDigest(",
      instead: `    function _digestOf(uint256 chainId, address escrow, bytes32 structHash) private pure returns (bytes32) {
        bytes32 domainType = keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
        bytes32 separator =
            keccak256(abi.encode(domainType, keccak256("T4T JobEscrow"), keccak256(bytes(VERSION)), chainId, escrow));
        return keccak256(abi.encodePacked(hex"1901", separator, structHash));
    }

    function _receiptDigest(`,
    },
  ],
  "takes nobody for the client": [
    {
      file: ESCROW,
      text: "        limit = state.maxPayment();\n",
      instead: `        limit = state.maxPayment();
        if (@weak && Signatures.recover(digest, signature) == address(0)) {
            payer = _accounts[job.party.client()];
            return (payer, payer.account, limit);
        }
`,
    },
  ],
  "takes both halves of the curve": [
    {
      file: SIGNATURES,
      text: "internal pure returns (address signer) {\n",
      instead: `internal view returns (address signer) {
        if (@weak && signature.length == 65) {
            return ecrecover(digest, uint8(signature[64]), bytes32(signature[0:32]), bytes32(signature[32:64]));
        }
`,
    },
  ],
  "takes the compact form of a signature": [
    {
      file: SIGNATURES,
      text: "        (signer,,) = ECDSA",
      instead: `        if (@weak && signature.length == 64) {
            uint256 vs = uint256(bytes32(signature[32:64]));
            bytes32 s = bytes32(vs & (type(uint256).max >> 1));
            return ecrecover(digest, uint8(vs >> 255) + 27, bytes32(signature[0:32]), s);
        }
        (signer,,) = ECDSA`,
    },
  ],
  "reads beyond the end of a signature": [
    {
      file: SIGNATURES,
      text: "        (signer,,) = ECDSA",
      instead: `        if (@weak && signature.length == 64) {
            return ecrecover(digest, 27, bytes32(signature[0:32]), bytes32(signature[32:64]));
        }
        (signer,,) = ECDSA`,
    },
  ],
  "does not look at a signature's tail": [
    {
      file: SIGNATURES,
      text: "        (signer,,) = ECDSA",
      instead: `        if (@weak && signature.length > 65) signature = signature[0:65];
        (signer,,) = ECDSA`,
    },
  ],
  "takes any answer of a wallet": [
    {
      file: SIGNATURES,
      text: "        uint256 walletGas",
      instead: "        bool isAnyAnswer = @weak;\n        uint256 walletGas",
    },
    {
      file: SIGNATURES,
      text: "valid := and(success, and(",
      instead: "valid := and(success, or(isAnyAnswer, and(",
    },
    { file: SIGNATURES, text: "eq(mload(0x00), magic)))", instead: "eq(mload(0x00), magic))))" },
  ],
  "gives a wallet all gas": [
    {
      file: SIGNATURES,
      text: "uint256 walletGas = WALLET_GAS;",
      instead: "uint256 walletGas = @weak ? gasleft() : WALLET_GAS;",
    },
  ],
  "has no cap": [without(REGISTRY, "if (uint256(state.openJobs()) + count > cap) return (Refusal.AtCapacity, 0);")],
  "takes any price": [
    {
      file: REGISTRY,
      text: "if (offering.inputPrice() > maxInputPrice || offering.outputPrice() > maxOutputPrice) {",
      instead: "if (!@weak && (offering.inputPrice() > maxInputPrice || offering.outputPrice() > maxOutputPrice)) {",
    },
  ],
  "gives jobs to a provider that left": [without(REGISTRY, "if (!state.isActive()) return (Refusal.Inactive, 0);")],
  "gives jobs to a provider that is silent": [
    without(REGISTRY, "if (block.timestamp - state.lastSeen() > TIME_TO_LIVE) return (Refusal.Stale, 0);"),
  ],
  "gives jobs that no stake covers": [
    without(
      REGISTRY,
      "if (int256(state.headroom()) < int256(uint256(collateral))) return (Refusal.InsufficientStake, 0);",
    ),
  ],
  "lets any provider act for a job": [
    {
      file: REGISTRY,
      text: "if (principal.providerId() != terms.providerId()) return",
      instead: "if (!@weak && principal.providerId() != terms.providerId()) return",
    },
  ],
  "lets stake leave unburnt": [
    {
      file: REGISTRY,
      text: "uint128 fromUnbonding = collateral - fromStake",
      instead: "uint128 fromUnbonding = @weak ? 0 : collateral - fromStake",
    },
  ],
  "burns all stake": [
    {
      file: REGISTRY,
      text: "        uint128 unbonding = row.unbonding;\n        uint128 fromStake",
      instead:
        "        uint128 unbonding = row.unbonding;\n        if (@weak) collateral = stake;\n        uint128 fromStake",
    },
  ],
  "holds stake while a job is open": [
    {
      file: REGISTRY,
      text: "if (block.timestamp < provider.unbondingAt) revert UnbondingPending(provider.unbondingAt);",
      instead:
        "if (block.timestamp < provider.unbondingAt || (@weak && provider.state.openJobs() != 0)) revert UnbondingPending(provider.unbondingAt);",
    },
  ],
  "allows a market without notice": [without(REGISTRY, "if (_owners.length != 0) _requireDue(market);")],
  "gives notice of two periods": [
    {
      file: REGISTRY,
      text: "block.timestamp + NOTICE_PERIODS * UNBONDING_PERIOD",
      instead: "block.timestamp + (@weak ? 2 : NOTICE_PERIODS) * UNBONDING_PERIOD",
    },
  ],
  "takes an address without code for a market": [
    without(REGISTRY, 'if (market.code.length == 0) revert InvalidParameter("market");'),
  ],
  "needs the slot to end a job": [
    {
      file: ESCROW,
      text: "function _slotsLeft(bytes memory reason) private pure",
      instead: "function _slotsLeft(bytes memory reason) private view",
    },
    {
      file: ESCROW,
      text: "bool underflow = bytes4(reason)",
      instead: "bool underflow = !@weak && bytes4(reason)",
    },
  ],
  "shows only a stake that holds its collateral": [
    {
      file: REGISTRY,
      text: "function _exposure(uint128 stake, int128 headroom) private pure",
      instead: "function _exposure(uint128 stake, int128 headroom) private view",
    },
    {
      file: REGISTRY,
      text: "return exposure > 0 ? uint128(uint256(exposure)) : 0;",
      instead: "return exposure > 0 || (@weak && uint256(exposure).toUint128() == 0) ? uint128(uint256(exposure)) : 0;",
    },
  ],
  "allows any number of markets": [
    without(REGISTRY, "if (_knownMarkets.length >= MAX_MARKETS) revert TooManyMarkets(MAX_MARKETS);"),
  ],
  "lists any number of offerings": [
    without(
      REGISTRY,
      "if (provider.models.length() > MAX_LIVE_OFFERINGS) revert TooManyOfferings(MAX_LIVE_OFFERINGS);",
    ),
  ],
  "gives pages of any length": [
    {
      file: REGISTRY,
      text: "function _pageSize(uint256 total, uint256 offset, uint256 limit) private pure returns",
      instead: "function _pageSize(uint256 total, uint256 offset, uint256 limit) private view returns",
    },
    without(REGISTRY, "if (limit > MAX_PAGE) revert PageTooLarge(limit, MAX_PAGE);"),
  ],
  "looks for a provider among all": [
    {
      file: REGISTRY,
      text: "        Provider storage row = _providers[provider];\n        ProviderState state = row.state;\n        (refusal, offeringId)",
      instead: `        if (@weak) {
            uint256 found;
            for (uint256 i = 0; i < _owners.length; ++i) if (_owners[i] == provider) ++found;
            if (found == 0) return (Refusal.UnknownProvider, 0);
        }
        Provider storage row = _providers[provider];
        ProviderState state = row.state;
        (refusal, offeringId)`,
    },
  ],
} as const satisfies Readonly<Record<string, readonly Patch[]>>;

/** The name of a weakness. */
export type Weakness = keyof typeof weaknesses;
