// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Ownable, Ownable2Step} from "@openzeppelin/contracts/access/Ownable2Step.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuard} from "@openzeppelin/contracts/utils/ReentrancyGuard.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {EnumerableSet} from "@openzeppelin/contracts/utils/structs/EnumerableSet.sol";

import {IProviderRegistry} from "./interfaces/IProviderRegistry.sol";
import {CurrentOffering, OfferingRecord, Principal} from "./types/Offering.sol";
import {ProviderState} from "./types/ProviderState.sol";

/// @title ProviderRegistry
/// @dev Documentation of functions, events and errors: {IProviderRegistry}.
contract ProviderRegistry is IProviderRegistry, Ownable2Step, ReentrancyGuard {
    using EnumerableSet for EnumerableSet.AddressSet;
    using EnumerableSet for EnumerableSet.Bytes32Set;
    using SafeCast for uint256;
    using SafeCast for int256;
    using SafeERC20 for IERC20;

    // ---------------------------------------------------------------------------------------------------------- types

    struct Parameters {
        uint256 minStake;
        uint256 timeToLive;
        uint256 unbondingPeriod;
        uint256 collateralBps;
    }

    /// @dev The fields of one slot are read together.
    struct Provider {
        // slot 0: what a job reads and writes
        ProviderState state;
        // slot 1
        address operator;
        uint32 generation;
        uint40 unbondingAt;
        // slot 2
        address payout;
        // slot 3
        uint128 stake;
        uint128 unbonding;
        // slot 4
        string endpoint;
        // slots 5 and 6: keys of the live offerings
        EnumerableSet.Bytes32Set models;
    }

    /// @dev One slot.
    struct Market {
        bool known; // was allowed once, so it may hold slots
        bool allowed;
        bool suspended;
    }

    // ------------------------------------------------------------------------------------------------------ constants

    /// @inheritdoc IProviderRegistry
    address public constant BURN_ADDRESS = 0x000000000000000000000000000000000000dEaD;
    /// @inheritdoc IProviderRegistry
    uint256 public constant MAX_ENDPOINT_BYTES = 256;
    /// @inheritdoc IProviderRegistry
    uint256 public constant MAX_MODEL_ID_BYTES = 128;
    /// @inheritdoc IProviderRegistry
    uint256 public constant MAX_OFFERINGS = 64;
    /// @inheritdoc IProviderRegistry
    uint256 public constant MAX_PAGE = 100;

    uint256 private constant BPS = 10_000;
    uint256 private constant MAX_UNBONDING_PERIOD = 365 days;
    /// @dev The market refreshes `lastSeen` when it is older than this part of the time to live.
    uint256 private constant REFRESH_DIVISOR = 8;

    IERC20 private immutable TOKEN;
    uint256 private immutable MIN_STAKE;
    uint256 private immutable TIME_TO_LIVE;
    uint256 private immutable REFRESH_AFTER;
    uint256 private immutable UNBONDING_PERIOD;
    uint256 private immutable COLLATERAL_BPS;

    // -------------------------------------------------------------------------------------------------------- storage

    mapping(address owner => Provider) private _providers;
    mapping(address account => Principal) private _principals;
    mapping(address market => Market) private _markets;
    mapping(address owner => mapping(bytes32 modelKey => CurrentOffering)) private _current;
    mapping(uint48 offeringId => OfferingRecord) private _records;
    mapping(bytes32 modelKey => string) private _modelIds;
    mapping(bytes32 modelKey => EnumerableSet.AddressSet) private _modelProviders;
    /// @dev When an account ceased to be operator of an owner.
    mapping(address owner => mapping(address operator => uint256 time)) private _resignedAt;
    /// @dev In order of registration; provider number n is at n - 1.
    address[] private _owners;
    uint48 private _lastOfferingId;
    uint256 private _burntStake;

    // ---------------------------------------------------------------------------------------------------- constructor

    constructor(address token_, address initialOwner, Parameters memory parameters) Ownable(initialOwner) {
        require(token_.code.length != 0, InvalidParameter("token"));
        require(parameters.minStake <= type(uint96).max, InvalidParameter("minStake"));
        require(
            parameters.timeToLive != 0 && parameters.timeToLive <= type(uint32).max, InvalidParameter("timeToLive")
        );
        require(
            parameters.unbondingPeriod != 0 && parameters.unbondingPeriod <= MAX_UNBONDING_PERIOD,
            InvalidParameter("unbondingPeriod")
        );
        require(parameters.collateralBps <= BPS, InvalidParameter("collateralBps"));
        TOKEN = IERC20(token_);
        MIN_STAKE = parameters.minStake;
        TIME_TO_LIVE = parameters.timeToLive;
        REFRESH_AFTER = parameters.timeToLive / REFRESH_DIVISOR;
        UNBONDING_PERIOD = parameters.unbondingPeriod;
        COLLATERAL_BPS = parameters.collateralBps;
    }

    // -------------------------------------------------------------------------------------------- provider's functions

    /// @inheritdoc IProviderRegistry
    function register(address operator, address payout, string calldata endpoint, uint256 stakeAmount)
        external
        nonReentrant
    {
        Provider storage provider = _providers[msg.sender];
        require(!provider.state.isRegistered(), ProviderAlreadyRegistered(msg.sender));
        address employer = _principals[msg.sender].owner;
        require(employer == address(0), OperatorTaken(msg.sender, employer));

        _owners.push(msg.sender);
        uint32 providerId = _owners.length.toUint32();
        _principals[msg.sender] = Principal(msg.sender, providerId);
        _appoint(msg.sender, operator, providerId);
        provider.operator = operator;
        provider.generation = 1;
        provider.payout = _checkedPayout(payout);
        provider.endpoint = _checkedEndpoint(endpoint);
        provider.state = provider.state.withActive(true).withLastSeen(uint40(block.timestamp));
        emit ProviderRegistered(msg.sender, operator, payout, 1, 0, endpoint);

        if (stakeAmount != 0) _addStake(msg.sender, stakeAmount);
        require(provider.stake >= MIN_STAKE, InsufficientStake(msg.sender, provider.stake, MIN_STAKE));
    }

    /// @inheritdoc IProviderRegistry
    function setOperator(address operator) external {
        Provider storage provider = _ownProvider();
        address previous = provider.operator;
        if (operator != previous) {
            _dismiss(msg.sender, previous);
            _appoint(msg.sender, operator, _principals[msg.sender].providerId);
            provider.operator = operator;
        }
        _touch(provider);
        emit OperatorChanged(msg.sender, previous, operator);
    }

    /// @inheritdoc IProviderRegistry
    function resignOperator() external {
        address owner_ = _principals[msg.sender].owner;
        require(owner_ != address(0) && owner_ != msg.sender, NotProvider(msg.sender));
        _dismiss(owner_, msg.sender);
        _providers[owner_].operator = owner_;
        emit OperatorChanged(owner_, msg.sender, owner_);
    }

    /// @inheritdoc IProviderRegistry
    function setEndpoint(string calldata endpoint) external {
        (address owner_, Provider storage provider) = _actingProvider();
        provider.endpoint = _checkedEndpoint(endpoint);
        _touch(provider);
        emit EndpointChanged(owner_, endpoint);
    }

    /// @inheritdoc IProviderRegistry
    function setPayout(address payout) external {
        Provider storage provider = _ownProvider();
        provider.payout = _checkedPayout(payout);
        _touch(provider);
        emit PayoutChanged(msg.sender, payout);
    }

    /// @inheritdoc IProviderRegistry
    function deactivate() external {
        Provider storage provider = _ownProvider();
        require(provider.state.isActive(), ProviderInactive(msg.sender));
        provider.state = provider.state.withActive(false);
        emit ProviderDeactivated(msg.sender);
    }

    /// @inheritdoc IProviderRegistry
    function reactivate() external {
        Provider storage provider = _ownProvider();
        require(!provider.state.isActive(), ProviderActive(msg.sender));
        require(provider.stake >= MIN_STAKE, InsufficientStake(msg.sender, provider.stake, MIN_STAKE));
        uint32 generation = provider.generation + 1;
        provider.generation = generation;
        provider.state = provider.state.withActive(true).withLastSeen(uint40(block.timestamp));
        emit ProviderReactivated(msg.sender, generation);
    }

    /// @inheritdoc IProviderRegistry
    function setMaxConcurrentJobs(uint32 maxConcurrentJobs) external {
        (address owner_, Provider storage provider) = _actingProvider();
        ProviderState state = provider.state;
        provider.state = _seenNow(state).withMaxConcurrentJobs(maxConcurrentJobs);
        emit MaxConcurrentJobsUpdated(owner_, state.maxConcurrentJobs(), maxConcurrentJobs, state.openJobs());
    }

    /// @inheritdoc IProviderRegistry
    function setOffering(string calldata modelId, uint96 inputPrice, uint96 outputPrice, uint32 contextLength)
        external
        returns (uint48 offeringId)
    {
        (address owner_, Provider storage provider) = _actingProvider();
        uint256 length = bytes(modelId).length;
        require(length != 0 && length <= MAX_MODEL_ID_BYTES, InvalidModelId(length, MAX_MODEL_ID_BYTES));
        require(inputPrice != 0 || outputPrice != 0, InvalidPrice(inputPrice, outputPrice));
        require(contextLength != 0, InvalidContextLength(contextLength));

        bytes32 modelKey = keccak256(bytes(modelId));
        if (provider.models.add(modelKey)) {
            require(provider.models.length() <= MAX_OFFERINGS, TooManyOfferings(MAX_OFFERINGS));
            _modelProviders[modelKey].add(owner_);
            if (bytes(_modelIds[modelKey]).length == 0) _modelIds[modelKey] = modelId;
        }
        offeringId = ++_lastOfferingId;
        _records[offeringId] = OfferingRecord(
            inputPrice, outputPrice, _principals[owner_].providerId, contextLength, modelKey
        );
        _current[owner_][modelKey] = CurrentOffering(offeringId, inputPrice, outputPrice);
        _touch(provider);
        emit OfferingSet(owner_, modelKey, offeringId, inputPrice, outputPrice, contextLength, modelId);
    }

    /// @inheritdoc IProviderRegistry
    function removeOffering(string calldata modelId) external {
        (address owner_, Provider storage provider) = _actingProvider();
        bytes32 modelKey = keccak256(bytes(modelId));
        uint48 offeringId = _current[owner_][modelKey].offeringId;
        require(offeringId != 0, OfferingNotFound(owner_, modelKey));
        delete _current[owner_][modelKey];
        provider.models.remove(modelKey);
        _modelProviders[modelKey].remove(owner_);
        _touch(provider);
        emit OfferingRemoved(owner_, modelKey, offeringId);
    }

    /// @inheritdoc IProviderRegistry
    function heartbeat() external {
        (address owner_, Provider storage provider) = _actingProvider();
        ProviderState state = provider.state;
        require(state.isActive(), ProviderInactive(owner_));
        provider.state = state.withLastSeen(uint40(block.timestamp));
        emit Heartbeat(owner_);
    }

    /// @inheritdoc IProviderRegistry
    function addStake(uint256 amount) external nonReentrant {
        Provider storage provider = _ownProvider();
        _touch(provider);
        _addStake(msg.sender, amount);
    }

    /// @inheritdoc IProviderRegistry
    function startUnbonding(uint256 amount) external {
        Provider storage provider = _ownProvider();
        require(provider.unbonding == 0, UnbondingPending(provider.unbondingAt));
        require(amount != 0, InvalidAmount(amount));
        uint256 stake = provider.stake;
        uint256 kept = provider.state.isActive() ? MIN_STAKE : 0;
        uint256 available = stake > kept ? stake - kept : 0;
        require(amount <= available, StakeLocked(available, amount));

        uint40 unbondingAt = uint40(block.timestamp + UNBONDING_PERIOD);
        stake -= amount;
        provider.stake = uint128(stake);
        provider.unbonding = uint128(amount);
        provider.unbondingAt = unbondingAt;
        provider.state = _seenNow(provider.state).withHeadroom(
            (int256(provider.state.headroom()) - int256(amount)).toInt128()
        );
        emit UnbondingStarted(msg.sender, amount, stake, unbondingAt);
    }

    /// @inheritdoc IProviderRegistry
    function withdrawStake() external nonReentrant {
        Provider storage provider = _ownProvider();
        uint256 amount = provider.unbonding;
        require(amount != 0, NothingUnbonding(msg.sender));
        require(block.timestamp >= provider.unbondingAt, UnbondingPending(provider.unbondingAt));
        address payout = provider.payout;
        provider.unbonding = 0;
        provider.unbondingAt = 0;
        _touch(provider);
        emit StakeWithdrawn(msg.sender, payout, amount);
        TOKEN.safeTransfer(payout, amount);
    }

    // ------------------------------------------------------------------------------------------------ market's functions

    /// @inheritdoc IProviderRegistry
    function acquireSlots(
        address provider,
        bytes32 modelKey,
        uint96 maxInputPrice,
        uint96 maxOutputPrice,
        uint32 count,
        uint96 payment
    ) external returns (uint48 offeringId, uint96 collateral) {
        _requireOpenMarket();
        require(count != 0, InvalidAmount(count));
        collateral = collateralFor(payment);
        Refusal refusal;
        (refusal, offeringId) = _tryAcquire(provider, modelKey, maxInputPrice, maxOutputPrice, count, collateral);
        if (refusal != Refusal.None) {
            _revertRefusal(refusal, provider, modelKey, maxInputPrice, maxOutputPrice, collateral);
        }
    }

    /// @inheritdoc IProviderRegistry
    function acquireSlotsAny(
        address[] calldata candidates,
        bytes32 modelKey,
        uint96 maxInputPrice,
        uint96 maxOutputPrice,
        uint32 count,
        uint96 payment
    ) external returns (uint256 index, uint48 offeringId, uint96 collateral) {
        _requireOpenMarket();
        require(count != 0, InvalidAmount(count));
        collateral = collateralFor(payment);
        for (; index < candidates.length; ++index) {
            Refusal refusal;
            (refusal, offeringId) =
                _tryAcquire(candidates[index], modelKey, maxInputPrice, maxOutputPrice, count, collateral);
            if (refusal == Refusal.None) return (index, offeringId, collateral);
        }
        return (index, 0, 0);
    }

    /// @inheritdoc IProviderRegistry
    function releaseSlots(address provider, uint32 count, uint128 collateral, bool seen) external {
        _requireKnownMarket();
        ProviderState state = _released(provider, count, int256(uint256(collateral)));
        if (seen) state = _refreshed(provider, state);
        _providers[provider].state = state;
        emit SlotsChanged(provider, state.openJobs(), state.maxConcurrentJobs());
    }

    /// @inheritdoc IProviderRegistry
    function releaseAndSlash(address provider, uint32 count, uint128 collateral) external returns (uint128 burnt) {
        _requireKnownMarket();
        Provider storage row = _providers[provider];
        uint128 stake = row.stake;
        uint128 unbonding = row.unbonding;
        uint128 fromStake = collateral < stake ? collateral : stake;
        uint128 fromUnbonding = collateral - fromStake < unbonding ? collateral - fromStake : unbonding;
        burnt = fromStake + fromUnbonding;
        stake -= fromStake;
        row.stake = stake;
        row.unbonding = unbonding - fromUnbonding;
        if (fromUnbonding != 0 && fromUnbonding == unbonding) row.unbondingAt = 0;
        _burntStake += burnt;

        ProviderState state = _released(provider, count, int256(uint256(collateral)) - int256(uint256(fromStake)));
        bool deactivated = stake < MIN_STAKE && state.isActive();
        if (deactivated) state = state.withActive(false);
        row.state = state;
        emit SlotsChanged(provider, state.openJobs(), state.maxConcurrentJobs());
        emit StakeSlashed(provider, burnt, stake);
        if (deactivated) emit ProviderDeactivated(provider);
    }

    /// @inheritdoc IProviderRegistry
    function touch(address provider) external {
        _requireKnownMarket();
        _providers[provider].state = _refreshed(provider, _providers[provider].state);
    }

    /// @inheritdoc IProviderRegistry
    function setSuspended(bool suspended) external {
        _requireKnownMarket();
        _markets[msg.sender].suspended = suspended;
        emit MarketSuspended(msg.sender, suspended);
    }

    // --------------------------------------------------------------------------------------------- anyone's and owner's

    /// @inheritdoc IProviderRegistry
    function sweepBurntStake() external nonReentrant {
        uint256 amount = _burntStake;
        require(amount != 0, InvalidAmount(amount));
        _burntStake = 0;
        emit BurntStakeSwept(amount);
        TOKEN.safeTransfer(BURN_ADDRESS, amount);
    }

    /// @inheritdoc IProviderRegistry
    function setMarket(address market, bool allowed) external onlyOwner {
        require(market != address(0), InvalidParameter("market"));
        _markets[market].known = true;
        _markets[market].allowed = allowed;
        emit MarketSet(market, allowed);
    }

    // ------------------------------------------------------------------------------------------------------------ views

    /// @inheritdoc IProviderRegistry
    function providerOf(address owner_) public view returns (ProviderView memory) {
        Provider storage provider = _providers[owner_];
        ProviderState state = provider.state;
        require(state.isRegistered(), ProviderNotRegistered(owner_));
        return ProviderView({
            owner: owner_,
            operator: provider.operator,
            payout: provider.payout,
            active: state.isActive(),
            lastSeen: state.lastSeen(),
            generation: provider.generation,
            maxConcurrentJobs: state.maxConcurrentJobs(),
            openJobs: state.openJobs(),
            exposure: uint256(int256(uint256(provider.stake)) - state.headroom()).toUint128(),
            stake: provider.stake,
            unbonding: provider.unbonding,
            unbondingAt: provider.unbondingAt,
            offeringCount: uint32(provider.models.length()),
            endpoint: provider.endpoint
        });
    }

    /// @inheritdoc IProviderRegistry
    function providerCount() external view returns (uint256) {
        return _owners.length;
    }

    /// @inheritdoc IProviderRegistry
    function providersPage(uint256 offset, uint256 limit) external view returns (ProviderView[] memory page) {
        uint256 size = _pageSize(_owners.length, offset, limit);
        page = new ProviderView[](size);
        for (uint256 i = 0; i < size; ++i) {
            page[i] = providerOf(_owners[offset + i]);
        }
    }

    /// @inheritdoc IProviderRegistry
    function offeringsPage(address provider, uint256 offset, uint256 limit)
        external
        view
        returns (OfferingView[] memory page)
    {
        EnumerableSet.Bytes32Set storage models = _providers[provider].models;
        uint256 size = _pageSize(models.length(), offset, limit);
        page = new OfferingView[](size);
        for (uint256 i = 0; i < size; ++i) {
            page[i] = offeringOf(_current[provider][models.at(offset + i)].offeringId);
        }
    }

    /// @inheritdoc IProviderRegistry
    function modelProviderCount(bytes32 modelKey) external view returns (uint256) {
        return _modelProviders[modelKey].length();
    }

    /// @inheritdoc IProviderRegistry
    function modelProvidersPage(bytes32 modelKey, uint256 offset, uint256 limit)
        external
        view
        returns (address[] memory page)
    {
        EnumerableSet.AddressSet storage providers = _modelProviders[modelKey];
        uint256 size = _pageSize(providers.length(), offset, limit);
        page = new address[](size);
        for (uint256 i = 0; i < size; ++i) {
            page[i] = providers.at(offset + i);
        }
    }

    /// @inheritdoc IProviderRegistry
    function offeringOf(uint48 offeringId) public view returns (OfferingView memory) {
        OfferingRecord memory record = _records[offeringId];
        if (record.providerId == 0) return OfferingView(0, address(0), 0, 0, 0, 0, false, "");
        address provider = _owners[record.providerId - 1];
        return OfferingView({
            offeringId: offeringId,
            provider: provider,
            modelKey: record.modelKey,
            inputPrice: record.inputPrice,
            outputPrice: record.outputPrice,
            contextLength: record.contextLength,
            live: _current[provider][record.modelKey].offeringId == offeringId,
            modelId: _modelIds[record.modelKey]
        });
    }

    /// @inheritdoc IProviderRegistry
    function offeringTerms(uint48 offeringId)
        external
        view
        returns (address provider, uint96 inputPrice, uint96 outputPrice)
    {
        OfferingRecord storage record = _records[offeringId];
        uint32 providerId = record.providerId;
        if (providerId == 0) return (address(0), 0, 0);
        return (_owners[providerId - 1], record.inputPrice, record.outputPrice);
    }

    /// @inheritdoc IProviderRegistry
    function offeringTermsFor(uint48 offeringId, address account)
        external
        view
        returns (address provider, uint96 inputPrice, uint96 outputPrice)
    {
        OfferingRecord storage record = _records[offeringId];
        Principal storage principal = _principals[account];
        uint32 providerId = principal.providerId;
        if (providerId == 0 || providerId != record.providerId) return (address(0), 0, 0);
        return (principal.owner, record.inputPrice, record.outputPrice);
    }

    /// @inheritdoc IProviderRegistry
    function currentOfferingId(address provider, bytes32 modelKey) external view returns (uint48) {
        return _current[provider][modelKey].offeringId;
    }

    /// @inheritdoc IProviderRegistry
    function providerOfOperator(address operator) external view returns (address owner_) {
        owner_ = _principals[operator].owner;
        if (_providers[owner_].operator != operator) return address(0);
    }

    /// @inheritdoc IProviderRegistry
    function isProviderAccount(address provider, address account) public view returns (bool) {
        return provider != address(0) && _principals[account].owner == provider;
    }

    /// @inheritdoc IProviderRegistry
    function wasProviderAccount(address provider, address account, uint256 time) external view returns (bool) {
        if (isProviderAccount(provider, account)) return true;
        uint256 resignedAt = _resignedAt[provider][account];
        return resignedAt != 0 && resignedAt >= time;
    }

    /// @inheritdoc IProviderRegistry
    function refusalOf(
        address provider,
        bytes32 modelKey,
        uint96 maxInputPrice,
        uint96 maxOutputPrice,
        uint32 count,
        uint96 payment
    ) external view returns (Refusal refusal) {
        (refusal,) = _refusalOf(
            provider,
            _providers[provider].state,
            modelKey,
            maxInputPrice,
            maxOutputPrice,
            count,
            collateralFor(payment)
        );
    }

    /// @inheritdoc IProviderRegistry
    function isMarket(address market) external view returns (bool) {
        return _markets[market].allowed;
    }

    /// @inheritdoc IProviderRegistry
    function isSuspended(address market) external view returns (bool) {
        return _markets[market].suspended;
    }

    /// @inheritdoc IProviderRegistry
    function collateralFor(uint96 payment) public view returns (uint96) {
        unchecked {
            // COLLATERAL_BPS <= BPS, so the result is at most `payment`.
            return uint96((uint256(payment) * COLLATERAL_BPS) / BPS);
        }
    }

    /// @inheritdoc IProviderRegistry
    function token() external view returns (address) {
        return address(TOKEN);
    }

    /// @inheritdoc IProviderRegistry
    function minStake() external view returns (uint256) {
        return MIN_STAKE;
    }

    /// @inheritdoc IProviderRegistry
    function timeToLive() external view returns (uint256) {
        return TIME_TO_LIVE;
    }

    /// @inheritdoc IProviderRegistry
    function unbondingPeriod() external view returns (uint256) {
        return UNBONDING_PERIOD;
    }

    /// @inheritdoc IProviderRegistry
    function collateralBps() external view returns (uint256) {
        return COLLATERAL_BPS;
    }

    /// @inheritdoc IProviderRegistry
    function burntStake() external view returns (uint256) {
        return _burntStake;
    }

    // ---------------------------------------------------------------------------------------------------------- callers

    /// @dev The provider that the caller owns.
    function _ownProvider() private view returns (Provider storage provider) {
        provider = _providers[msg.sender];
        require(provider.state.isRegistered(), NotProvider(msg.sender));
    }

    /// @dev The provider that the caller owns or operates.
    function _actingProvider() private view returns (address owner_, Provider storage provider) {
        owner_ = _principals[msg.sender].owner;
        require(owner_ != address(0), NotProvider(msg.sender));
        provider = _providers[owner_];
    }

    function _requireOpenMarket() private view {
        Market storage market = _markets[msg.sender];
        require(market.allowed, NotMarket(msg.sender));
        require(!market.suspended, EnforcedPause());
    }

    function _requireKnownMarket() private view {
        require(_markets[msg.sender].known, NotMarket(msg.sender));
    }

    /// @dev Makes `operator` act for `owner_`. The owner acts for itself from the start.
    function _appoint(address owner_, address operator, uint32 providerId) private {
        require(operator != address(0), InvalidOperator(operator));
        if (operator == owner_) return;
        address employer = _principals[operator].owner;
        require(employer == address(0), OperatorTaken(operator, employer));
        _principals[operator] = Principal(owner_, providerId);
    }

    function _dismiss(address owner_, address operator) private {
        if (operator == owner_) return;
        delete _principals[operator];
        _resignedAt[owner_][operator] = block.timestamp;
    }

    // --------------------------------------------------------------------------------------------------------- liveness

    /// @dev An inactive provider does not become fresh by acting.
    function _seenNow(ProviderState state) private view returns (ProviderState) {
        return state.isActive() ? state.withLastSeen(uint40(block.timestamp)) : state;
    }

    function _touch(Provider storage provider) private {
        provider.state = _seenNow(provider.state);
    }

    /// @dev As {_seenNow}, but seldom enough that the event, which an index needs, does not weigh on every job.
    function _refreshed(address provider, ProviderState state) private returns (ProviderState) {
        if (!state.isActive() || block.timestamp - state.lastSeen() < REFRESH_AFTER) return state;
        emit Heartbeat(provider);
        return state.withLastSeen(uint40(block.timestamp));
    }

    // ------------------------------------------------------------------------------------------------------------ slots

    function _tryAcquire(
        address provider,
        bytes32 modelKey,
        uint96 maxInputPrice,
        uint96 maxOutputPrice,
        uint32 count,
        uint96 collateral
    ) private returns (Refusal refusal, uint48 offeringId) {
        ProviderState state = _providers[provider].state;
        (refusal, offeringId) =
            _refusalOf(provider, state, modelKey, maxInputPrice, maxOutputPrice, count, collateral);
        if (refusal != Refusal.None) return (refusal, 0);
        unchecked {
            // Both in range: {_refusalOf} has compared them.
            state = state.withOpenJobs(state.openJobs() + count).withHeadroom(
                state.headroom() - int128(uint128(collateral))
            );
        }
        _providers[provider].state = state;
        emit SlotsChanged(provider, state.openJobs(), state.maxConcurrentJobs());
    }

    function _refusalOf(
        address provider,
        ProviderState state,
        bytes32 modelKey,
        uint96 maxInputPrice,
        uint96 maxOutputPrice,
        uint32 count,
        uint96 collateral
    ) private view returns (Refusal, uint48) {
        if (!state.isRegistered()) return (Refusal.UnknownProvider, 0);
        if (!state.isActive()) return (Refusal.Inactive, 0);
        if (block.timestamp - state.lastSeen() > TIME_TO_LIVE) return (Refusal.Stale, 0);
        CurrentOffering storage offering = _current[provider][modelKey];
        uint48 offeringId = offering.offeringId;
        if (offeringId == 0) return (Refusal.NoOffering, 0);
        if (offering.inputPrice > maxInputPrice || offering.outputPrice > maxOutputPrice) {
            return (Refusal.PriceAboveLimit, 0);
        }
        uint256 cap = state.maxConcurrentJobs();
        if (cap == 0) cap = type(uint32).max; // no cap but that of the counter
        if (uint256(state.openJobs()) + count > cap) return (Refusal.AtCapacity, 0);
        if (int256(state.headroom()) < int256(uint256(collateral))) return (Refusal.InsufficientStake, 0);
        return (Refusal.None, offeringId);
    }

    function _revertRefusal(
        Refusal refusal,
        address provider,
        bytes32 modelKey,
        uint96 maxInputPrice,
        uint96 maxOutputPrice,
        uint96 collateral
    ) private view {
        ProviderState state = _providers[provider].state;
        if (refusal == Refusal.UnknownProvider) revert ProviderNotRegistered(provider);
        if (refusal == Refusal.Inactive) revert ProviderInactive(provider);
        if (refusal == Refusal.Stale) revert ProviderStale(provider, state.lastSeen(), TIME_TO_LIVE);
        if (refusal == Refusal.NoOffering) revert OfferingNotFound(provider, modelKey);
        if (refusal == Refusal.PriceAboveLimit) {
            CurrentOffering storage offering = _current[provider][modelKey];
            revert PriceAboveLimit(
                provider, offering.inputPrice, offering.outputPrice, maxInputPrice, maxOutputPrice
            );
        }
        if (refusal == Refusal.AtCapacity) {
            revert ProviderAtCapacity(provider, state.openJobs(), state.maxConcurrentJobs());
        }
        int256 headroom = state.headroom();
        revert InsufficientStake(provider, headroom > 0 ? uint256(headroom) : 0, collateral);
    }

    /// @dev The state after `count` slots were freed and `headroom` came back.
    function _released(address provider, uint32 count, int256 headroom) private view returns (ProviderState state) {
        state = _providers[provider].state;
        uint32 open = state.openJobs();
        require(count != 0 && count <= open, SlotUnderflow(provider, open, count));
        unchecked {
            open -= count;
        }
        state = state.withOpenJobs(open).withHeadroom((int256(state.headroom()) + headroom).toInt128());
    }

    // ------------------------------------------------------------------------------------------------------------ others

    function _addStake(address owner_, uint256 amount) private {
        uint256 before = TOKEN.balanceOf(address(this));
        TOKEN.safeTransferFrom(msg.sender, address(this), amount);
        uint256 received = TOKEN.balanceOf(address(this)) - before;
        require(received != 0, InvalidAmount(amount));

        Provider storage provider = _providers[owner_];
        uint128 stake = (provider.stake + received).toUint128();
        provider.stake = stake;
        provider.state =
            provider.state.withHeadroom((int256(provider.state.headroom()) + int256(received)).toInt128());
        emit Staked(owner_, received, stake);
    }

    function _checkedPayout(address payout) private view returns (address) {
        require(payout != address(0) && payout != address(this), InvalidPayout(payout));
        return payout;
    }

    function _checkedEndpoint(string calldata endpoint) private pure returns (string calldata) {
        uint256 length = bytes(endpoint).length;
        require(length != 0 && length <= MAX_ENDPOINT_BYTES, InvalidEndpoint(length, MAX_ENDPOINT_BYTES));
        return endpoint;
    }

    function _pageSize(uint256 total, uint256 offset, uint256 limit) private pure returns (uint256) {
        require(limit <= MAX_PAGE, PageTooLarge(limit, MAX_PAGE));
        if (offset >= total) return 0;
        uint256 rest = total - offset;
        return rest < limit ? rest : limit;
    }
}
