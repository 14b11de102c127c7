// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Ownable, Ownable2Step} from "@openzeppelin/contracts/access/Ownable2Step.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/IERC20Permit.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuard} from "@openzeppelin/contracts/utils/ReentrancyGuard.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

import {IJobEscrow} from "./interfaces/IJobEscrow.sol";
import {IProviderRegistry} from "./interfaces/IProviderRegistry.sol";
import {Signatures} from "./libraries/Signatures.sol";
import {Balance} from "./types/Balance.sol";
import {JobMoney, JobTermsWord, MAX_SINCE_DELTA, NO_MONEY, packMoney, packTerms} from "./types/Job.sol";

/// @title JobEscrow
/// @dev Documentation of functions, events and errors: {IJobEscrow}.
///
/// No job function moves a token or calls anything but the registry (trusted, fixed at deployment) and, by `staticcall` with
/// bounded gas, a contract wallet that is asked for its signature. So only the functions that do move tokens carry a guard.
contract JobEscrow is IJobEscrow, Ownable2Step, ReentrancyGuard, EIP712 {
    using SafeCast for uint256;
    using SafeERC20 for IERC20;

    // ---------------------------------------------------------------------------------------------------------- types

    struct Parameters {
        uint96 minPayment;
        uint40 minDuration;
        uint40 maxDuration;
        uint40 ackWindow;
        uint40 responseWindow;
    }

    /// @dev Neighbouring items of a batch with the same offering share one look at it and one release of their slots.
    struct Run {
        uint48 offeringId;
        address provider;
        uint96 inputPrice;
        uint96 outputPrice;
        uint32 count;
        uint128 collateral;
    }

    // ------------------------------------------------------------------------------------------------------ constants

    /// @inheritdoc IJobEscrow
    bytes32 public constant RECEIPT_TYPEHASH = keccak256(
        "Receipt(bytes32 jobId,address provider,uint64 inputTokens,uint64 outputTokens,bytes32 responseHash)"
    );
    /// @inheritdoc IJobEscrow
    bytes32 public constant ACKNOWLEDGEMENT_TYPEHASH =
        keccak256("Acknowledgement(bytes32 jobId,address provider,bytes32 requestHash)");
    /// @inheritdoc IJobEscrow
    uint256 public constant MAX_CANDIDATES = 8;
    /// @inheritdoc IJobEscrow
    uint256 public constant MAX_BATCH = 50;
    /// @inheritdoc IJobEscrow
    string public constant version = "1";

    /// @dev Prices are per this many tokens of text.
    uint256 private constant PRICE_UNIT = 1e6;

    uint8 private constant OPEN = uint8(JobStatus.Open);
    uint8 private constant ACKNOWLEDGED = uint8(JobStatus.Acknowledged);
    uint8 private constant CANCEL_REQUESTED = uint8(JobStatus.CancelRequested);

    IProviderRegistry private immutable REGISTRY;
    IERC20 private immutable TOKEN;
    uint96 private immutable MIN_PAYMENT;
    uint40 private immutable MIN_DURATION;
    uint40 private immutable MAX_DURATION;
    uint40 private immutable ACK_WINDOW;
    uint40 private immutable RESPONSE_WINDOW;
    /// @dev As the registry computes it; both are fixed at deployment.
    uint256 private immutable COLLATERAL_BPS;

    // -------------------------------------------------------------------------------------------------------- storage

    mapping(address account => Balance) private _balances;
    mapping(bytes32 jobId => JobMoney) private _money;
    mapping(bytes32 jobId => JobTermsWord) private _terms;

    // ---------------------------------------------------------------------------------------------------- constructor

    constructor(address registry_, address initialOwner, Parameters memory parameters)
        Ownable(initialOwner)
        EIP712("T4T JobEscrow", version)
    {
        require(registry_.code.length != 0, InvalidParameter("registry"));
        REGISTRY = IProviderRegistry(registry_);
        TOKEN = IERC20(REGISTRY.token());
        COLLATERAL_BPS = REGISTRY.collateralBps();

        require(parameters.minPayment != 0, InvalidParameter("minPayment"));
        require(parameters.minDuration != 0, InvalidParameter("minDuration"));
        require(
            parameters.maxDuration >= parameters.minDuration && parameters.maxDuration <= MAX_SINCE_DELTA,
            InvalidParameter("maxDuration")
        );
        require(
            parameters.ackWindow != 0 && parameters.ackWindow <= parameters.maxDuration, InvalidParameter("ackWindow")
        );
        require(
            parameters.responseWindow != 0 && parameters.responseWindow <= parameters.maxDuration,
            InvalidParameter("responseWindow")
        );
        // Stake must answer for every job that was open when its unbonding began.
        require(
            REGISTRY.unbondingPeriod()
                > uint256(parameters.maxDuration) + parameters.ackWindow + parameters.responseWindow,
            InvalidParameter("unbondingPeriod")
        );
        MIN_PAYMENT = parameters.minPayment;
        MIN_DURATION = parameters.minDuration;
        MAX_DURATION = parameters.maxDuration;
        ACK_WINDOW = parameters.ackWindow;
        RESPONSE_WINDOW = parameters.responseWindow;
    }

    // ---------------------------------------------------------------------------------------------------------- money

    /// @inheritdoc IJobEscrow
    function deposit(uint256 amount) external nonReentrant {
        _deposit(msg.sender, amount);
    }

    /// @inheritdoc IJobEscrow
    function depositFor(address account, uint256 amount) external nonReentrant {
        require(account != address(0), ZeroAddress());
        _deposit(account, amount);
    }

    /// @inheritdoc IJobEscrow
    function depositWithPermit(uint256 amount, uint256 permitDeadline, uint8 v, bytes32 r, bytes32 s)
        external
        nonReentrant
    {
        // Whoever sees the permit can use it first; what counts is the allowance, which the transfer checks.
        try IERC20Permit(address(TOKEN)).permit(msg.sender, address(this), amount, permitDeadline, v, r, s) {} catch {}
        _deposit(msg.sender, amount);
    }

    /// @inheritdoc IJobEscrow
    function withdraw(uint256 amount, address to) external nonReentrant {
        _withdraw(msg.sender, to, amount);
    }

    /// @inheritdoc IJobEscrow
    function withdrawProvider(address provider, uint256 amount) external nonReentrant {
        require(REGISTRY.isProviderAccount(provider, msg.sender), NotProviderAccount(provider, msg.sender));
        _withdraw(provider, REGISTRY.providerOf(provider).payout, amount);
    }

    // ----------------------------------------------------------------------------------------------------------- jobs

    /// @inheritdoc IJobEscrow
    function postJob(address provider, JobTerms calldata terms) external returns (bytes32 jobId) {
        jobId = _lock(terms);
        (uint48 offeringId,) = REGISTRY.acquireSlots(
            provider, terms.modelKey, terms.maxInputPrice, terms.maxOutputPrice, 1, terms.maxPayment
        );
        _open(jobId, provider, offeringId, terms);
    }

    /// @inheritdoc IJobEscrow
    function postJobAny(address[] calldata candidates, JobTerms calldata terms)
        external
        returns (bytes32 jobId, address provider)
    {
        require(candidates.length != 0, NoCandidates());
        require(candidates.length <= MAX_CANDIDATES, TooManyCandidates(candidates.length, MAX_CANDIDATES));
        jobId = _lock(terms);
        (uint256 index, uint48 offeringId,) = REGISTRY.acquireSlotsAny(
            candidates, terms.modelKey, terms.maxInputPrice, terms.maxOutputPrice, 1, terms.maxPayment
        );
        if (index == candidates.length) _revertNoProvider(candidates, terms);
        provider = candidates[index];
        _open(jobId, provider, offeringId, terms);
    }

    /// @inheritdoc IJobEscrow
    function ackJob(bytes32 jobId) external {
        (, JobTermsWord terms) = _liveJob(jobId);
        uint8 status = terms.status();
        require(status == OPEN || status == CANCEL_REQUESTED, JobStatusMismatch(jobId, JobStatus(status)));
        address provider = _jobProviderAs(jobId, terms, msg.sender);
        _terms[jobId] = terms.withStatusAt(ACKNOWLEDGED, block.timestamp);
        REGISTRY.touch(provider);
        emit JobAcknowledged(jobId, provider);
    }

    /// @inheritdoc IJobEscrow
    function completeJob(bytes32 jobId, Usage calldata usage, bytes32 responseHash, bytes calldata clientSignature)
        external
    {
        Run memory run;
        bytes memory failure = _complete(jobId, usage, responseHash, clientSignature, run);
        if (failure.length != 0) {
            assembly ("memory-safe") {
                revert(add(failure, 0x20), mload(failure))
            }
        }
        _endRun(run, true);
    }

    /// @inheritdoc IJobEscrow
    function completeJobs(Completion[] calldata items) external {
        require(items.length <= MAX_BATCH, TooManyItems(items.length, MAX_BATCH));
        Run memory run;
        for (uint256 i = 0; i < items.length; ++i) {
            Completion calldata item = items[i];
            bytes memory failure = _complete(item.jobId, item.usage, item.responseHash, item.clientSignature, run);
            if (failure.length != 0) emit CompletionSkipped(item.jobId, failure);
        }
        _endRun(run, true);
    }

    /// @inheritdoc IJobEscrow
    function declineJob(bytes32 jobId) external {
        (JobMoney money, JobTermsWord terms) = _liveJob(jobId);
        address provider = _jobProviderAs(jobId, terms, msg.sender);
        _refund(jobId, money, terms, JobStatus.Declined);
        REGISTRY.releaseSlots(provider, 1, _collateral(money.maxPayment()), true);
        emit JobDeclined(jobId, provider);
    }

    /// @inheritdoc IJobEscrow
    function requestCancel(bytes32 jobId) external {
        (JobMoney money, JobTermsWord terms) = _liveJob(jobId);
        require(money.client() == msg.sender, NotClient(jobId, msg.sender));
        uint8 status = terms.status();
        require(status == OPEN, JobStatusMismatch(jobId, JobStatus(status)));
        uint256 earliest = uint256(terms.postedAt()) + ACK_WINDOW;
        require(block.timestamp >= earliest, CancelTooEarly(jobId, earliest));

        terms = terms.withStatusAt(CANCEL_REQUESTED, block.timestamp);
        _terms[jobId] = terms;
        emit JobCancelRequested(jobId, _jobProvider(terms), terms.since() + RESPONSE_WINDOW);
    }

    /// @inheritdoc IJobEscrow
    function finalizeCancel(bytes32 jobId) external {
        (JobMoney money, JobTermsWord terms) = _liveJob(jobId);
        uint8 status = terms.status();
        require(status == CANCEL_REQUESTED, JobStatusMismatch(jobId, JobStatus(status)));
        uint256 until = uint256(terms.since()) + RESPONSE_WINDOW;
        require(block.timestamp >= until, ResponseWindowOpen(jobId, until));

        address provider = _jobProvider(terms);
        _refund(jobId, money, terms, JobStatus.Cancelled);
        REGISTRY.releaseSlots(provider, 1, _collateral(money.maxPayment()), false);
        emit JobCancelled(jobId, provider);
    }

    /// @inheritdoc IJobEscrow
    function expireJobs(bytes32[] calldata jobIds) external {
        require(jobIds.length <= MAX_BATCH, TooManyItems(jobIds.length, MAX_BATCH));
        Run memory run;
        for (uint256 i = 0; i < jobIds.length; ++i) {
            bytes32 jobId = jobIds[i];
            JobMoney money = _money[jobId];
            JobTermsWord terms = _terms[jobId];
            if (money.isEmpty() || block.timestamp < terms.deadline()) {
                emit ExpirySkipped(jobId, _statusOf(money, terms), terms.deadline());
                continue;
            }
            if (terms.offeringId() != run.offeringId) {
                _endRun(run, false);
                run.offeringId = terms.offeringId();
                run.provider = _jobProvider(terms);
            }
            _refund(jobId, money, terms, JobStatus.Expired);
            _addToRun(run, money);
            emit JobExpired(jobId, run.provider);
        }
        _endRun(run, false);
    }

    /// @inheritdoc IJobEscrow
    function slashJob(bytes32 jobId, bytes32 requestHash, bytes calldata acknowledgement) external {
        (JobMoney money, JobTermsWord terms) = _liveJob(jobId);
        require(money.client() == msg.sender, NotClient(jobId, msg.sender));
        require(block.timestamp >= terms.deadline(), DeadlineNotReached(jobId, terms.deadline()));
        address provider = _jobProvider(terms);
        bytes32 digest =
            _hashTypedDataV4(keccak256(abi.encode(ACKNOWLEDGEMENT_TYPEHASH, jobId, provider, requestHash)));
        require(
            _isSignedByProvider(provider, terms.postedAt(), digest, acknowledgement), InvalidAcknowledgement(jobId)
        );

        _refund(jobId, money, terms, JobStatus.Slashed);
        uint128 burnt = REGISTRY.releaseAndSlash(provider, 1, _collateral(money.maxPayment()));
        emit JobSlashed(jobId, provider, uint96(burnt));
    }

    // ---------------------------------------------------------------------------------------------------------- owner

    /// @inheritdoc IJobEscrow
    function pause() external onlyOwner {
        require(!paused(), EnforcedPause());
        REGISTRY.setSuspended(true);
        emit Paused(msg.sender);
    }

    /// @inheritdoc IJobEscrow
    function unpause() external onlyOwner {
        require(paused(), ExpectedPause());
        REGISTRY.setSuspended(false);
        emit Unpaused(msg.sender);
    }

    // ---------------------------------------------------------------------------------------------------------- views

    /// @inheritdoc IJobEscrow
    function jobIdOf(address client, uint256 nonce) public view returns (bytes32) {
        return keccak256(abi.encode(block.chainid, address(this), client, nonce));
    }

    /// @inheritdoc IJobEscrow
    function jobOf(bytes32 jobId) external view returns (JobView memory job) {
        JobMoney money = _money[jobId];
        JobTermsWord terms = _terms[jobId];
        if (!terms.exists()) return job;
        IProviderRegistry.OfferingView memory offering = REGISTRY.offeringOf(terms.offeringId());
        return JobView({
            jobId: jobId,
            status: _statusOf(money, terms),
            client: money.client(),
            provider: offering.provider,
            modelKey: offering.modelKey,
            offeringId: terms.offeringId(),
            maxPayment: money.maxPayment(),
            unsignedLimit: terms.unsignedLimit(),
            inputPrice: offering.inputPrice,
            outputPrice: offering.outputPrice,
            since: terms.since(),
            deadline: terms.deadline()
        });
    }

    /// @inheritdoc IJobEscrow
    function accountOf(address account) external view returns (AccountView memory) {
        Balance balance = _balances[account];
        return AccountView({free: balance.free(), locked: balance.locked()});
    }

    /// @inheritdoc IJobEscrow
    function paymentFor(uint48 offeringId, Usage calldata usage) external view returns (uint256) {
        (, uint96 inputPrice, uint96 outputPrice) = REGISTRY.offeringTerms(offeringId);
        return _price(usage, inputPrice, outputPrice);
    }

    /// @inheritdoc IJobEscrow
    function paused() public view returns (bool) {
        return REGISTRY.isSuspended(address(this));
    }

    /// @inheritdoc IJobEscrow
    function token() external view returns (address) {
        return address(TOKEN);
    }

    /// @inheritdoc IJobEscrow
    function registry() external view returns (address) {
        return address(REGISTRY);
    }

    /// @inheritdoc IJobEscrow
    function minPayment() external view returns (uint96) {
        return MIN_PAYMENT;
    }

    /// @inheritdoc IJobEscrow
    function minDuration() external view returns (uint40) {
        return MIN_DURATION;
    }

    /// @inheritdoc IJobEscrow
    function maxDuration() external view returns (uint40) {
        return MAX_DURATION;
    }

    /// @inheritdoc IJobEscrow
    function ackWindow() external view returns (uint40) {
        return ACK_WINDOW;
    }

    /// @inheritdoc IJobEscrow
    function responseWindow() external view returns (uint40) {
        return RESPONSE_WINDOW;
    }

    // ----------------------------------------------------------------------------------------------------- money, inside

    function _deposit(address account, uint256 amount) private {
        uint256 before = TOKEN.balanceOf(address(this));
        TOKEN.safeTransferFrom(msg.sender, address(this), amount);
        uint256 received = TOKEN.balanceOf(address(this)) - before;
        require(received != 0, InvalidAmount(amount));
        _balances[account] = _balances[account].credit(received.toUint128());
        emit Deposited(account, msg.sender, received);
    }

    function _withdraw(address account, address to, uint256 amount) private {
        require(amount != 0, InvalidAmount(amount));
        require(to != address(0), ZeroAddress());
        require(to != address(this), InvalidRecipient(to));
        Balance balance = _balances[account];
        require(amount <= balance.free(), InsufficientBalance(account, balance.free(), amount));
        _balances[account] = balance.debit(uint128(amount));
        emit Withdrawn(account, to, amount);
        TOKEN.safeTransfer(to, amount);
    }

    // ------------------------------------------------------------------------------------------------------ jobs, inside

    /// @dev Checks the terms and locks the caller's money for the job.
    function _lock(JobTerms calldata terms) private returns (bytes32 jobId) {
        uint96 maxPayment = terms.maxPayment;
        require(maxPayment >= MIN_PAYMENT, PaymentBelowMinimum(maxPayment, MIN_PAYMENT));
        require(terms.unsignedLimit <= maxPayment, UnsignedLimitAbovePayment(terms.unsignedLimit, maxPayment));
        uint256 earliest = block.timestamp + MIN_DURATION;
        uint256 latest = block.timestamp + MAX_DURATION;
        require(
            terms.deadline >= earliest && terms.deadline <= latest,
            DeadlineOutOfBounds(terms.deadline, earliest, latest)
        );
        jobId = jobIdOf(msg.sender, terms.nonce);
        require(!_terms[jobId].exists(), JobAlreadyPosted(jobId));
        Balance balance = _balances[msg.sender];
        require(maxPayment <= balance.free(), InsufficientBalance(msg.sender, balance.free(), maxPayment));
        _balances[msg.sender] = balance.lock(maxPayment);
    }

    function _open(bytes32 jobId, address provider, uint48 offeringId, JobTerms calldata terms) private {
        _money[jobId] = packMoney(msg.sender, terms.maxPayment);
        _terms[jobId] = packTerms(OPEN, uint40(block.timestamp), terms.deadline, offeringId, terms.unsignedLimit);
        emit JobPosted(
            jobId, msg.sender, provider, offeringId, terms.maxPayment, terms.unsignedLimit, terms.deadline
        );
    }

    function _revertNoProvider(address[] calldata candidates, JobTerms calldata terms) private view {
        uint8[] memory refusals = new uint8[](candidates.length);
        for (uint256 i = 0; i < candidates.length; ++i) {
            refusals[i] = uint8(
                REGISTRY.refusalOf(
                    candidates[i], terms.modelKey, terms.maxInputPrice, terms.maxOutputPrice, 1, terms.maxPayment
                )
            );
        }
        revert NoProviderAvailable(refusals);
    }

    /// @dev Pays one job. Returns the error instead of reverting with it, before anything has changed.
    function _complete(
        bytes32 jobId,
        Usage calldata usage,
        bytes32 responseHash,
        bytes calldata clientSignature,
        Run memory run
    ) private returns (bytes memory failure) {
        JobMoney money = _money[jobId];
        JobTermsWord terms = _terms[jobId];
        if (money.isEmpty()) return _notLive(jobId, money, terms);

        if (terms.offeringId() != run.offeringId) {
            _endRun(run, true);
            (run.provider, run.inputPrice, run.outputPrice) =
                REGISTRY.offeringTermsFor(terms.offeringId(), msg.sender);
            run.offeringId = terms.offeringId();
        }
        address provider = run.provider;
        if (provider == address(0)) return abi.encodeWithSelector(NotJobProvider.selector, jobId, msg.sender);

        uint96 limit = money.maxPayment();
        bool signed = clientSignature.length != 0;
        if (!signed) {
            limit = terms.unsignedLimit();
        } else if (!_isReceiptValid(money.client(), jobId, provider, usage, responseHash, clientSignature)) {
            return abi.encodeWithSelector(InvalidClientSignature.selector, jobId);
        }
        uint256 price = _price(usage, run.inputPrice, run.outputPrice);
        uint96 payment = price < limit ? uint96(price) : limit;

        // The terms keep their live status: see {JobMoney}.
        _money[jobId] = NO_MONEY;
        _settle(money, payment);
        _balances[provider] = _balances[provider].credit(payment);
        _addToRun(run, money);
        emit JobCompleted(
            jobId, provider, payment, usage.inputTokens, usage.outputTokens, responseHash, signed
        );
    }

    /// @dev Ends a job without payment.
    function _refund(bytes32 jobId, JobMoney money, JobTermsWord terms, JobStatus end) private {
        _money[jobId] = NO_MONEY;
        _terms[jobId] = terms.withStatus(uint8(end));
        _settle(money, 0);
    }

    /// @dev The client's side of an end.
    function _settle(JobMoney money, uint96 payment) private {
        address client = money.client();
        uint96 maxPayment = money.maxPayment();
        _balances[client] = _balances[client].settle(maxPayment, maxPayment - payment);
    }

    function _addToRun(Run memory run, JobMoney money) private view {
        unchecked {
            // At most MAX_BATCH items of uint96.
            run.count += 1;
            run.collateral += _collateral(money.maxPayment());
        }
    }

    /// @dev Frees the slots of the jobs of a run.
    function _endRun(Run memory run, bool seen) private {
        if (run.count == 0) return;
        REGISTRY.releaseSlots(run.provider, run.count, run.collateral, seen);
        run.count = 0;
        run.collateral = 0;
    }

    function _collateral(uint96 payment) private view returns (uint96) {
        unchecked {
            return uint96((uint256(payment) * COLLATERAL_BPS) / 10_000);
        }
    }

    function _price(Usage calldata usage, uint96 inputPrice, uint96 outputPrice) private pure returns (uint256) {
        unchecked {
            // Two products of 160 bits.
            return (uint256(usage.inputTokens) * inputPrice + uint256(usage.outputTokens) * outputPrice) / PRICE_UNIT;
        }
    }

    // ------------------------------------------------------------------------------------------------- state and signers

    function _liveJob(bytes32 jobId) private view returns (JobMoney money, JobTermsWord terms) {
        money = _money[jobId];
        terms = _terms[jobId];
        if (money.isEmpty()) {
            require(terms.exists(), JobNotFound(jobId));
            revert JobStatusMismatch(jobId, _statusOf(money, terms));
        }
    }

    function _notLive(bytes32 jobId, JobMoney money, JobTermsWord terms) private pure returns (bytes memory) {
        return terms.exists()
            ? abi.encodeWithSelector(JobStatusMismatch.selector, jobId, _statusOf(money, terms))
            : abi.encodeWithSelector(JobNotFound.selector, jobId);
    }

    function _statusOf(JobMoney money, JobTermsWord terms) private pure returns (JobStatus) {
        uint8 status = terms.status();
        bool live = status == OPEN || status == ACKNOWLEDGED || status == CANCEL_REQUESTED;
        return live && money.isEmpty() ? JobStatus.Completed : JobStatus(status);
    }

    function _jobProvider(JobTermsWord terms) private view returns (address provider) {
        (provider,,) = REGISTRY.offeringTerms(terms.offeringId());
    }

    /// @dev The job's provider, for which `account` must act.
    function _jobProviderAs(bytes32 jobId, JobTermsWord terms, address account) private view returns (address provider) {
        (provider,,) = REGISTRY.offeringTermsFor(terms.offeringId(), account);
        require(provider != address(0), NotJobProvider(jobId, account));
    }

    function _isReceiptValid(
        address client,
        bytes32 jobId,
        address provider,
        Usage calldata usage,
        bytes32 responseHash,
        bytes calldata signature
    ) private view returns (bool) {
        bytes32 structHash = keccak256(
            abi.encode(
                RECEIPT_TYPEHASH, jobId, provider, usage.inputTokens, usage.outputTokens, responseHash
            )
        );
        return Signatures.isValid(client, _hashTypedDataV4(structHash), signature);
    }

    /// @dev By the owner, or by whoever was operator while the job was open: rotating the key does not take a consent back.
    function _isSignedByProvider(address provider, uint256 postedAt, bytes32 digest, bytes calldata signature)
        private
        view
        returns (bool)
    {
        address signer = Signatures.recover(digest, signature);
        if (signer != address(0) && REGISTRY.wasProviderAccount(provider, signer, postedAt)) return true;
        if (Signatures.isValidForWallet(provider, digest, signature)) return true;
        return Signatures.isValidForWallet(REGISTRY.providerOf(provider).operator, digest, signature);
    }
}
