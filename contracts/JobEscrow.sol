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
import {Account, MAX_BALANCE} from "./types/Account.sol";
import {JobParty, JobState, MAX_DELTA, NO_STATE, packParty, packState} from "./types/Job.sol";
import {OfferingTerms} from "./types/OfferingTerms.sol";

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

    /// @dev Structs of one field are there to have a reference: the place in storage is then computed once.
    struct AccountRow {
        Account account;
    }

    struct Job {
        // slot 0
        JobState state;
        // slot 1
        JobParty party;
    }

    /// @dev What a provider says to have delivered. In memory it is what EIP-712 hashes for a receipt, word by word.
    struct Receipt {
        bytes32 typeHash;
        bytes32 jobId;
        address provider;
        uint64 inputTokens;
        uint64 outputTokens;
        bytes32 responseHash;
    }

    /// @dev Items of a batch that share one release of their slots: of {expireJobs} neighbours with the same offering, of {completeJobs}
    /// all, because a caller acts for one provider. Neighbours with the same offering share one look at it.
    struct Run {
        uint48 offeringId;
        address provider;
        OfferingTerms terms;
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
    string public constant override version = VERSION; // solhint-disable-line const-name-snakecase

    string private constant VERSION = "1";
    /// @dev Prices are per this many tokens of text.
    uint256 private constant PRICE_UNIT = 1e6;
    /// @dev Limit of a claim that is good for nothing.
    uint256 private constant NO_CLAIM = type(uint256).max;

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

    mapping(address account => AccountRow row) private _accounts;
    mapping(bytes32 jobId => Job job) private _jobs;
    /// @dev Number of the last account that got one.
    uint32 private _lastNumber;

    // ---------------------------------------------------------------------------------------------------- constructor

    constructor(address registry_, address initialOwner, Parameters memory parameters)
        Ownable(initialOwner)
        EIP712("T4T JobEscrow", VERSION)
    {
        if (registry_.code.length == 0) revert InvalidParameter("registry");
        REGISTRY = IProviderRegistry(registry_);
        TOKEN = IERC20(REGISTRY.token());
        COLLATERAL_BPS = REGISTRY.collateralBps();

        if (parameters.minPayment == 0) revert InvalidParameter("minPayment");
        if (parameters.minDuration == 0) revert InvalidParameter("minDuration");
        if (parameters.maxDuration < parameters.minDuration || parameters.maxDuration > MAX_DELTA) {
            revert InvalidParameter("maxDuration");
        }
        if (parameters.ackWindow == 0 || parameters.ackWindow > parameters.maxDuration) {
            revert InvalidParameter("ackWindow");
        }
        if (parameters.responseWindow == 0 || parameters.responseWindow > parameters.maxDuration) {
            revert InvalidParameter("responseWindow");
        }
        // Stake must answer for every job that was open when its unbonding began.
        uint256 longestJob = uint256(parameters.maxDuration) + parameters.ackWindow + parameters.responseWindow;
        if (REGISTRY.unbondingPeriod() <= longestJob) revert InvalidParameter("unbondingPeriod");
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
        _requireReachable(account);
        _deposit(account, amount);
    }

    /// @inheritdoc IJobEscrow
    function depositWithPermit(uint256 amount, uint256 permitDeadline, uint8 v, bytes32 r, bytes32 s)
        external
        nonReentrant
    {
        // Whoever sees the permit can use it first; what counts is the allowance, which the transfer checks.
        // solhint-disable-next-line no-empty-blocks
        try IERC20Permit(address(TOKEN)).permit(msg.sender, address(this), amount, permitDeadline, v, r, s) {} catch {}
        _deposit(msg.sender, amount);
    }

    /// @inheritdoc IJobEscrow
    function withdraw(uint256 amount, address to) external nonReentrant {
        // Whoever calls is there to pass it on, and a contract may know no other recipient: making it a market must not lock it out.
        if (to != msg.sender) _requireReachable(to);
        _withdraw(msg.sender, to, amount);
    }

    /// @inheritdoc IJobEscrow
    function withdrawProvider(address provider, uint256 amount) external nonReentrant {
        if (!REGISTRY.isProviderAccount(provider, msg.sender)) revert NotProviderAccount(provider, msg.sender);
        address payout = REGISTRY.providerOf(provider).payout;
        _requireReachable(payout);
        _withdraw(provider, payout, amount);
    }

    // ----------------------------------------------------------------------------------------------------------- jobs

    /// @inheritdoc IJobEscrow
    function postJob(address provider, JobTerms calldata terms) external returns (bytes32 jobId) {
        uint32 number;
        (jobId, number) = _lock(terms);
        _open(jobId, number, provider, _acquireSlot(provider, terms), terms);
    }

    /// @inheritdoc IJobEscrow
    function postJobAny(address[] calldata candidates, JobTerms calldata terms)
        external
        returns (bytes32 jobId, address provider)
    {
        if (candidates.length == 0) revert NoCandidates();
        if (candidates.length > MAX_CANDIDATES) revert TooManyCandidates(candidates.length, MAX_CANDIDATES);
        uint32 number;
        (jobId, number) = _lock(terms);
        (uint256 index, uint48 offeringId) = REGISTRY.acquireSlotsAny(
            candidates, terms.modelKey, terms.maxInputPrice, terms.maxOutputPrice, 1, terms.maxPayment
        );
        if (index == candidates.length) _revertNoProvider(candidates, terms);
        provider = candidates[index];
        _open(jobId, number, provider, offeringId, terms);
    }

    /// @inheritdoc IJobEscrow
    function ackJob(bytes32 jobId) external {
        (Job storage job, JobState state) = _liveJob(jobId);
        uint8 status = state.status();
        if (status == uint8(JobStatus.Acknowledged)) revert JobStatusMismatch(jobId, JobStatus(status));
        (, address provider) = REGISTRY.termsFor(msg.sender, state.offeringId());
        if (provider == address(0)) revert NotJobProvider(jobId, msg.sender);
        job.state = state.withStatusAt(uint8(JobStatus.Acknowledged), block.timestamp);
        REGISTRY.touch(provider);
        emit JobAcknowledged(jobId, provider);
    }

    /// @inheritdoc IJobEscrow
    function completeJob(bytes32 jobId, Usage calldata usage, bytes32 responseHash, bytes calldata clientSignature)
        external
    {
        (Job storage job, JobState state) = _liveJob(jobId);
        job.state = NO_STATE;
        (OfferingTerms terms, address provider) = _settleSlot(jobId, state);
        Receipt memory receipt =
            Receipt(RECEIPT_TYPEHASH, jobId, provider, usage.inputTokens, usage.outputTokens, responseHash);
        if (!_payClaim(job, state, terms, receipt, clientSignature)) revert InvalidClientSignature(jobId);
    }

    /// @inheritdoc IJobEscrow
    function completeJobs(Completion[] calldata items) external {
        if (items.length > MAX_BATCH) revert TooManyItems(items.length, MAX_BATCH);
        Run memory run;
        for (uint256 i = 0; i < items.length; ++i) {
            Completion calldata item = items[i];
            bytes memory failure = _completeItem(item, run);
            if (failure.length != 0) emit CompletionSkipped(item.jobId, failure);
        }
        _endRun(run, true);
    }

    /// @inheritdoc IJobEscrow
    function declineJob(bytes32 jobId) external {
        (Job storage job, JobState state) = _liveJob(jobId);
        _refund(job, state, JobStatus.Declined);
        (, address provider) = _settleSlot(jobId, state);
        emit JobDeclined(jobId, provider);
    }

    /// @inheritdoc IJobEscrow
    function requestCancel(bytes32 jobId) external {
        (Job storage job, JobState state) = _liveJob(jobId);
        if (job.party.client() != msg.sender) revert NotClient(jobId, msg.sender);
        uint8 status = state.status();
        if (status != uint8(JobStatus.Open)) revert JobStatusMismatch(jobId, JobStatus(status));
        uint256 earliest = uint256(state.postedAt()) + ACK_WINDOW;
        if (block.timestamp < earliest) revert CancelTooEarly(jobId, earliest);

        state = state.withStatusAt(uint8(JobStatus.CancelRequested), block.timestamp);
        job.state = state;
        emit JobCancelRequested(jobId, _jobProvider(state), state.since() + RESPONSE_WINDOW);
    }

    /// @inheritdoc IJobEscrow
    function finalizeCancel(bytes32 jobId) external {
        (Job storage job, JobState state) = _liveJob(jobId);
        uint8 status = state.status();
        if (status != uint8(JobStatus.CancelRequested)) revert JobStatusMismatch(jobId, JobStatus(status));
        uint256 until = uint256(state.since()) + RESPONSE_WINDOW;
        if (block.timestamp < until) revert ResponseWindowOpen(jobId, until);

        address provider = _jobProvider(state);
        _refund(job, state, JobStatus.Cancelled);
        _freeSlots(provider, 1, _collateral(state.maxPayment()), false);
        emit JobCancelled(jobId, provider);
    }

    /// @inheritdoc IJobEscrow
    function expireJobs(bytes32[] calldata jobIds) external {
        if (jobIds.length > MAX_BATCH) revert TooManyItems(jobIds.length, MAX_BATCH);
        Run memory run;
        for (uint256 i = 0; i < jobIds.length; ++i) {
            bytes32 jobId = jobIds[i];
            Job storage job = _jobs[jobId];
            JobState state = job.state;
            if (!state.isLive() || block.timestamp < state.deadline()) {
                emit ExpirySkipped(jobId, _statusOf(job), state.deadline());
                continue;
            }
            if (state.offeringId() != run.offeringId) {
                _endRun(run, false);
                run.offeringId = state.offeringId();
                run.provider = _jobProvider(state);
            }
            _refund(job, state, JobStatus.Expired);
            _addToRun(run, state);
            emit JobExpired(jobId, run.provider);
        }
        _endRun(run, false);
    }

    /// @inheritdoc IJobEscrow
    function slashJob(bytes32 jobId, bytes32 requestHash, bytes calldata acknowledgement) external {
        (Job storage job, JobState state) = _liveJob(jobId);
        if (job.party.client() != msg.sender) revert NotClient(jobId, msg.sender);
        if (block.timestamp < state.deadline()) revert DeadlineNotReached(jobId, state.deadline());
        address provider = _jobProvider(state);
        bytes32 digest = _hashTypedDataV4(keccak256(abi.encode(ACKNOWLEDGEMENT_TYPEHASH, jobId, provider, requestHash)));
        if (!_isSignedByProvider(provider, state.postedAt(), digest, acknowledgement)) {
            revert InvalidAcknowledgement(jobId);
        }

        _refund(job, state, JobStatus.Slashed);
        uint128 burnt = REGISTRY.releaseSlotsAndSlash(provider, 1, _collateral(state.maxPayment()));
        emit JobSlashed(jobId, provider, uint96(burnt));
    }

    // ---------------------------------------------------------------------------------------------------------- owner

    /// @inheritdoc IJobEscrow
    function pause() external onlyOwner {
        if (paused()) revert EnforcedPause();
        REGISTRY.setMarketSuspended(true);
        emit Paused(msg.sender);
    }

    /// @inheritdoc IJobEscrow
    function unpause() external onlyOwner {
        if (!paused()) revert ExpectedPause();
        REGISTRY.setMarketSuspended(false);
        emit Unpaused(msg.sender);
    }

    // ---------------------------------------------------------------------------------------------------------- views

    /// @inheritdoc IJobEscrow
    function jobIdOf(address client, uint256 nonce) public view returns (bytes32) {
        return keccak256(abi.encode(block.chainid, address(this), client, nonce));
    }

    /// @inheritdoc IJobEscrow
    function jobOf(bytes32 jobId) external view returns (JobView memory job) {
        JobParty party = _jobs[jobId].party;
        if (!party.exists()) return job;
        JobState state = _jobs[jobId].state;
        IProviderRegistry.OfferingView memory offering = REGISTRY.offeringOf(state.offeringId());
        return JobView({
            jobId: jobId,
            status: _statusOf(_jobs[jobId]),
            client: party.client(),
            provider: offering.provider,
            modelKey: offering.modelKey,
            offeringId: state.offeringId(),
            maxPayment: state.maxPayment(),
            unsignedLimit: party.unsignedLimit(),
            inputPrice: offering.inputPrice,
            outputPrice: offering.outputPrice,
            since: state.since(),
            deadline: state.deadline()
        });
    }

    /// @inheritdoc IJobEscrow
    function accountOf(address account) external view returns (AccountView memory) {
        Account row = _accounts[account].account;
        return AccountView({free: row.free(), locked: row.locked()});
    }

    /// @inheritdoc IJobEscrow
    function paymentFor(uint48 offeringId, Usage calldata usage) external view returns (uint256) {
        (, uint96 inputPrice, uint96 outputPrice) = REGISTRY.offeringTerms(offeringId);
        return _price(usage.inputTokens, usage.outputTokens, inputPrice, outputPrice);
    }

    /// @inheritdoc IJobEscrow
    function paused() public view returns (bool) {
        return REGISTRY.isMarketSuspended(address(this));
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
        if (received == 0) revert InvalidAmount(amount);
        AccountRow storage row = _accounts[account];
        row.account = _credited(account, row.account, received);
        emit Deposited(account, msg.sender, received);
    }

    function _credited(address account, Account row, uint256 amount) private pure returns (Account) {
        if (amount > MAX_BALANCE || amount + row.total() > MAX_BALANCE) {
            revert BalanceTooLarge(account, amount, MAX_BALANCE);
        }
        return row.credit(amount);
    }

    /// @dev Somebody can get at what arrives there.
    function _requireReachable(address to) private view {
        if (to == address(0)) revert ZeroAddress();
        if (to == address(this) || REGISTRY.isDeadEnd(to)) revert InvalidRecipient(to);
    }

    function _withdraw(address account, address to, uint256 amount) private {
        if (amount == 0) revert InvalidAmount(amount);
        AccountRow storage row = _accounts[account];
        uint256 free = row.account.free();
        if (amount > free) revert InsufficientBalance(account, free, amount);
        row.account = row.account.debit(amount);
        emit Withdrawn(account, to, amount);
        TOKEN.safeTransfer(to, amount);
    }

    // ------------------------------------------------------------------------------------------------------ jobs, inside

    /// @dev Checks the terms and locks the caller's money for the job.
    function _lock(JobTerms calldata terms) private returns (bytes32 jobId, uint32 number) {
        uint96 maxPayment = terms.maxPayment;
        if (maxPayment < MIN_PAYMENT) revert PaymentBelowMinimum(maxPayment, MIN_PAYMENT);
        if (terms.unsignedLimit > maxPayment) revert UnsignedLimitAbovePayment(terms.unsignedLimit, maxPayment);
        _requireDeadlineInBounds(terms.deadline);
        jobId = jobIdOf(msg.sender, terms.nonce);
        if (_jobs[jobId].party.exists()) revert JobAlreadyPosted(jobId);
        AccountRow storage row = _accounts[msg.sender];
        Account account = row.account;
        if (maxPayment > account.free()) revert InsufficientBalance(msg.sender, account.free(), maxPayment);
        number = account.number();
        if (number == 0) {
            number = ++_lastNumber;
            account = account.withNumber(number);
        }
        row.account = account.lock(maxPayment);
    }

    function _requireDeadlineInBounds(uint40 deadline) private view {
        unchecked {
            // Sums of values of 40 bits.
            uint256 earliest = block.timestamp + MIN_DURATION;
            uint256 latest = block.timestamp + MAX_DURATION;
            if (deadline < earliest || deadline > latest) revert DeadlineOutOfBounds(deadline, earliest, latest);
        }
    }

    function _open(bytes32 jobId, uint32 number, address provider, uint48 offeringId, JobTerms calldata terms) private {
        Job storage job = _jobs[jobId];
        uint96 maxPayment = terms.maxPayment;
        uint96 unsignedLimit = terms.unsignedLimit;
        uint40 deadline = terms.deadline;
        job.party = packParty(msg.sender, unsignedLimit);
        job.state = packState(uint8(JobStatus.Open), block.timestamp, deadline, number, offeringId, maxPayment);
        emit JobPosted(jobId, msg.sender, provider, offeringId, maxPayment, unsignedLimit, deadline);
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

    /// @dev The client's account and what a claim is good for; NO_CLAIM when the receipt is not the client's.
    function _claim(Job storage job, JobState state, Receipt memory receipt, bytes calldata signature)
        private
        view
        returns (AccountRow storage payer, Account account, uint256 limit)
    {
        if (signature.length == 0) {
            JobParty party = job.party;
            payer = _accounts[party.client()];
            return (payer, payer.account, party.unsignedLimit());
        }
        bytes32 digest = _receiptDigest(receipt);
        payer = _accounts[Signatures.recover(digest, signature)];
        account = payer.account;
        limit = state.maxPayment();
        if (account.number() != state.clientNumber()) {
            // Not the key of the client: so a contract wallet, or a forgery.
            address client = job.party.client();
            payer = _accounts[client];
            account = payer.account;
            if (!Signatures.isValidForWallet(client, digest, signature)) limit = NO_CLAIM;
        }
    }

    /// @dev Completes one job of a batch. Returns the error instead of reverting with it, before anything has changed.
    function _completeItem(Completion calldata item, Run memory run) private returns (bytes memory) {
        bytes32 jobId = item.jobId;
        Job storage job = _jobs[jobId];
        JobState state = job.state;
        if (!state.isLive()) {
            JobStatus status = _statusOf(job);
            return status == JobStatus.None
                ? abi.encodeWithSelector(JobNotFound.selector, jobId)
                : abi.encodeWithSelector(JobStatusMismatch.selector, jobId, status);
        }
        if (state.offeringId() != run.offeringId) {
            (OfferingTerms terms, address provider) = REGISTRY.termsFor(msg.sender, state.offeringId());
            if (provider == address(0)) {
                return abi.encodeWithSelector(NotJobProvider.selector, jobId, msg.sender);
            }
            run.offeringId = state.offeringId();
            run.terms = terms;
            run.provider = provider;
        }
        Receipt memory receipt = Receipt(
            RECEIPT_TYPEHASH, jobId, run.provider, item.usage.inputTokens, item.usage.outputTokens, item.responseHash
        );
        if (!_payClaim(job, state, run.terms, receipt, item.clientSignature)) {
            return abi.encodeWithSelector(InvalidClientSignature.selector, jobId);
        }
        job.state = NO_STATE;
        _addToRun(run, state);
        return "";
    }

    /// @dev Pays what a claim is good for; false, before anything has changed, when the receipt is not the client's.
    function _payClaim(
        Job storage job,
        JobState state,
        OfferingTerms terms,
        Receipt memory receipt,
        bytes calldata clientSignature
    ) private returns (bool) {
        (AccountRow storage payer, Account account, uint256 limit) = _claim(job, state, receipt, clientSignature);
        if (limit == NO_CLAIM) return false;
        _pay(payer, account, state, limit, terms, receipt, clientSignature.length != 0);
        return true;
    }

    function _pay(
        AccountRow storage payer,
        Account account,
        JobState state,
        uint256 limit,
        OfferingTerms terms,
        Receipt memory receipt,
        bool signed
    ) private {
        uint256 payment = _price(receipt.inputTokens, receipt.outputTokens, terms.inputPrice(), terms.outputPrice());
        if (payment > limit) payment = limit;
        unchecked {
            // payment <= limit <= maxPayment
            payer.account = account.settle(state.maxPayment(), state.maxPayment() - payment);
        }
        address provider = receipt.provider;
        AccountRow storage payee = _accounts[provider]; // may be the payer
        payee.account = _credited(provider, payee.account, payment);
        emit JobCompleted(
            receipt.jobId,
            provider,
            uint96(payment),
            receipt.inputTokens,
            receipt.outputTokens,
            receipt.responseHash,
            signed
        );
    }

    /// @dev Ends a job without payment.
    function _refund(Job storage job, JobState state, JobStatus end) private {
        job.state = state.withStatus(uint8(end));
        AccountRow storage row = _accounts[job.party.client()];
        row.account = row.account.settle(state.maxPayment(), state.maxPayment());
    }

    function _addToRun(Run memory run, JobState state) private view {
        unchecked {
            // At most MAX_BATCH items of uint96.
            run.count += 1;
            run.collateral += _collateral(state.maxPayment());
        }
    }

    /// @dev Frees the slots of the jobs of a run.
    function _endRun(Run memory run, bool seen) private {
        if (run.count == 0) return;
        _freeSlots(run.provider, run.count, run.collateral, seen);
        run.count = 0;
        run.collateral = 0;
    }

    /// @dev Frees the slots of ended jobs; when another market has freed some of them, those that are left.
    function _freeSlots(address provider, uint32 count, uint128 collateral, bool seen) private {
        // solhint-disable-next-line no-empty-blocks
        try REGISTRY.releaseSlots(provider, count, collateral, seen) {}
        catch (bytes memory reason) {
            uint32 left = _slotsLeft(reason);
            // A part by number: what the others held may be given back already. Exact for jobs of one size; what is off ends with the next
            // change of the stake.
            if (left != 0) REGISTRY.releaseSlots(provider, left, uint128(uint256(collateral) * left / count), seen);
            emit SlotsMissing(provider, count - left);
        }
    }

    /// @dev Slots that the registry counts, when it refused to free more than that; any other error goes on as it is. So does an empty
    /// one, which a lack of gas leaves: nobody can end a job without its slot by sending too little.
    function _slotsLeft(bytes memory reason) private pure returns (uint32 left) {
        bool underflow = bytes4(reason) == SlotUnderflow.selector;
        assembly ("memory-safe") {
            if iszero(underflow) { revert(add(reason, 0x20), mload(reason)) }
            left := mload(add(reason, 0x44)) // after length, selector and provider
        }
    }

    function _collateral(uint96 payment) private view returns (uint96) {
        unchecked {
            return uint96((uint256(payment) * COLLATERAL_BPS) / 10_000);
        }
    }

    function _price(uint64 inputTokens, uint64 outputTokens, uint96 inputPrice, uint96 outputPrice)
        private
        pure
        returns (uint256)
    {
        unchecked {
            // Two products of 160 bits.
            return (uint256(inputTokens) * inputPrice + uint256(outputTokens) * outputPrice) / PRICE_UNIT;
        }
    }

    // ------------------------------------------------------------------------------------------------- state and signers

    function _liveJob(bytes32 jobId) private view returns (Job storage job, JobState state) {
        job = _jobs[jobId];
        state = job.state;
        if (!state.isLive()) {
            JobStatus status = _statusOf(job);
            if (status == JobStatus.None) revert JobNotFound(jobId);
            revert JobStatusMismatch(jobId, status);
        }
    }

    function _statusOf(Job storage job) private view returns (JobStatus) {
        if (!job.party.exists()) return JobStatus.None;
        return job.state.isEmpty() ? JobStatus.Completed : JobStatus(job.state.status());
    }

    /// @dev Frees the slot of a job that the caller provides: {IProviderRegistry-settleSlotFor}. Every completion passes here, and
    /// the compiler's own encoding and decoding of this call would cost it 350 gas more.
    function _settleSlot(bytes32 jobId, JobState state) private returns (OfferingTerms terms, address provider) {
        address target = address(REGISTRY);
        bytes4 selector = IProviderRegistry.settleSlotFor.selector;
        uint256 offeringId = state.offeringId();
        uint256 collateral = _collateral(state.maxPayment());
        bool freed;
        bytes memory reason;
        assembly ("memory-safe") {
            let data := mload(0x40)
            mstore(data, selector)
            mstore(add(data, 0x04), caller())
            mstore(add(data, 0x24), offeringId)
            mstore(add(data, 0x44), collateral)
            freed := call(gas(), target, 0, data, 0x64, 0x00, 0x40)
            switch freed
            case 0 {
                reason := data
                mstore(reason, returndatasize())
                returndatacopy(add(reason, 0x20), 0x00, returndatasize())
                mstore(0x40, and(add(add(reason, returndatasize()), 0x3f), not(0x1f)))
            }
            default {
                terms := mload(0x00)
                provider := mload(0x20)
            }
        }
        if (!freed) {
            _slotsLeft(reason); // none, and so not this one
            (terms, provider) = REGISTRY.termsFor(msg.sender, offeringId);
            emit SlotsMissing(provider, 1);
        }
        if (provider == address(0)) revert NotJobProvider(jobId, msg.sender);
    }

    /// @dev Takes a slot for a job: {IProviderRegistry-acquireSlots}. As {_settleSlot}, it saves what the compiler's own encoding
    /// costs. The prices travel as they came, and the registry checks their range.
    function _acquireSlot(address provider, JobTerms calldata terms) private returns (uint48 offeringId) {
        address target = address(REGISTRY);
        bytes4 selector = IProviderRegistry.acquireSlots.selector;
        uint256 maxPayment = terms.maxPayment;
        assembly ("memory-safe") {
            let data := mload(0x40)
            mstore(data, selector)
            mstore(add(data, 0x04), provider)
            calldatacopy(add(data, 0x24), add(terms, 0x80), 0x40) // maxInputPrice, maxOutputPrice
            mstore(add(data, 0x64), maxPayment)
            mstore(add(data, 0x84), 1)
            calldatacopy(add(data, 0xa4), add(terms, 0x20), 0x20) // modelKey
            if iszero(call(gas(), target, 0, data, 0xc4, 0x00, 0x20)) {
                returndatacopy(data, 0x00, returndatasize())
                revert(data, returndatasize())
            }
            offeringId := mload(0x00)
        }
    }

    function _jobProvider(JobState state) private view returns (address provider) {
        (provider,,) = REGISTRY.offeringTerms(state.offeringId());
    }

    function _receiptDigest(Receipt memory receipt) private view returns (bytes32) {
        bytes32 structHash;
        assembly ("memory-safe") {
            structHash := keccak256(receipt, 0xc0)
        }
        return _hashTypedDataV4(structHash);
    }

    /// @dev By the owner, key or contract, or by a key that was operator while the job was open: rotating it does not take a consent back.
    function _isSignedByProvider(address provider, uint256 postedAt, bytes32 digest, bytes calldata signature)
        private
        view
        returns (bool)
    {
        address signer = Signatures.recover(digest, signature);
        if (signer != address(0) && REGISTRY.wasProviderAccount(provider, signer, postedAt)) return true;
        // A contract as owner is there for good. One as operator could be replaced, and its consent could not be asked for any more.
        return Signatures.isValidForWallet(provider, digest, signature);
    }
}
