public import Foundation
import Records
import Synchronization

/// The configuration of an operation, also available as `CKOperation.Configuration`.
///
/// Values that are not set are taken from the operation's group, if it has them. Must be used by one thread at a time.
public final class CKOperationConfiguration: NSObject, NSCopying, @unchecked Sendable {
    // Unchecked because one thread configures it before the operation starts, as in CloudKit.

    /// The container; `nil` for the database's container, or else `CKContainer.default()`.
    public var container: CKContainer?
    /// The priority of the operation.
    public var qualityOfService: QualityOfService {
        get { urgency ?? .default }
        set { urgency = newValue }
    }
    /// Has no effect, because the SDK uses any available network; it exists for source compatibility.
    public var allowsCellularAccess = true
    /// Has no effect, because operations do not outlive the process; it exists for source compatibility.
    public var isLongLived = false
    /// The timeout for the response to one request in seconds; the default is 60.
    public var timeoutIntervalForRequest: TimeInterval {
        get { requestTimeout ?? 60 }
        set { requestTimeout = newValue }
    }
    /// The timeout for the whole operation in seconds; the default is a week.
    public var timeoutIntervalForResource: TimeInterval {
        get { resourceTimeout ?? 604_800 }
        set { resourceTimeout = newValue }
    }
    /// The value that the app has set.
    var urgency: QualityOfService?
    /// The values that the app has set.
    fileprivate var requestTimeout: TimeInterval?
    fileprivate var resourceTimeout: TimeInterval?

    /// Creates a configuration with the default values.
    public override init() {}

    /// Returns an independent copy.
    public func copy(with zone: NSZone? = nil) -> Any {
        let copy = CKOperationConfiguration()
        copy.container = container
        copy.urgency = urgency
        copy.allowsCellularAccess = allowsCellularAccess
        copy.isLongLived = isLongLived
        copy.requestTimeout = requestTimeout
        copy.resourceTimeout = resourceTimeout
        return copy
    }

    func independentCopy() -> CKOperationConfiguration { copy() as? CKOperationConfiguration ?? self }
}

/// The settings of a call's requests, apart from their database.
package struct RequestSettings: Sendable, Hashable {
    /// The timeout for a response; `nil` for the transport's default.
    package var timeout: Duration?
    /// The group's ID and name, for the relay's log.
    package var group: String?
    /// Whether the caller repeats the request until it gets a response, as engines do.
    package var isRepeated = false
    /// The timeout for all requests of an operation together; `nil` for no limit.
    private(set) var operationTimeout: Duration?
    /// The end of `operationTimeout`; set when the operation starts to work.
    var deadline: Deadline?

    package init() {}

    /// The headers to add to a request.
    var headers: [(name: String, value: String)] {
        group.map { [(name: "X-Zonecast-Operation-Group", value: $0)] } ?? []
    }

    init(_ configuration: CKOperationConfiguration?, _ group: CKOperationGroup?) {
        // The group's values apply where the configuration has none.
        let merged = CKOperationConfiguration()
        let common = group?.defaultConfiguration
        merged.requestTimeout = configuration?.requestTimeout ?? common?.requestTimeout
        merged.resourceTimeout = configuration?.resourceTimeout ?? common?.resourceTimeout
        operationTimeout = merged.resourceTimeout.flatMap { Duration(waitOf: max($0, 0)) }.map {
            min($0, .seconds(604_800))
        }
        // No request waits for a network to become available, so the operation's timeout also limits each request.
        let limit = min(merged.timeoutIntervalForRequest, merged.timeoutIntervalForResource)
        if limit != CKOperationConfiguration().timeoutIntervalForRequest {
            timeout = Duration(waitOf: max(limit, 0.001)).map { min($0, .seconds(604_800)) }
        }
        if let group { self.group = group.label }
    }
}

/// A set of operations with a common purpose.
///
/// The relay's log shows its name.
public final class CKOperationGroup: NSObject, NSSecureCoding, @unchecked Sendable {
    // Unchecked because of the configuration, which is set before the operations start; the mutex protects everything
    // else.

    /// The amount of data that the app expects to transfer.
    public enum TransferSize: Int, Sendable {
        /// Unknown.
        case unknown = 0
        /// Less than a megabyte.
        case kilobytes = 1
        /// Up to ten megabytes.
        case megabytes = 2
        /// Up to a hundred megabytes.
        case tensOfMegabytes = 3
        /// Up to a gigabyte.
        case hundredsOfMegabytes = 4
        /// Up to ten gigabytes.
        case gigabytes = 5
        /// Up to a hundred gigabytes.
        case tensOfGigabytes = 6
        /// More than a hundred gigabytes.
        case hundredsOfGigabytes = 7
    }

    private struct State {
        var configuration = CKOperationConfiguration()
        var name: String?
        var quantity = 0
        var sendSize = TransferSize.unknown
        var receiveSize = TransferSize.unknown
    }

    /// The unique ID of the group.
    public let operationGroupID: String
    private let state = Mutex(State())

    /// Creates a group with a new ID.
    public override init() { operationGroupID = UUID().uuidString }

    /// Creates a group from the output of `encode(with:)`.
    public init?(coder: NSCoder) {
        guard let id = coder.text("GroupID") else { return nil }
        operationGroupID = id
        super.init()
        name = coder.text("Name")
        quantity = coder.number("Quantity")
        expectedSendSize = TransferSize(rawValue: coder.number("SendSize")) ?? .unknown
        expectedReceiveSize = TransferSize(rawValue: coder.number("ReceiveSize")) ?? .unknown
    }

    /// Whether the class supports secure coding: always `true`.
    public static var supportsSecureCoding: Bool { true }

    /// Encodes the ID, the name and the expected sizes.
    public func encode(with coder: NSCoder) {
        coder.encode(operationGroupID as NSString, forKey: "GroupID")
        if let name { coder.encode(name as NSString, forKey: "Name") }
        coder.encode(quantity, forKey: "Quantity")
        coder.encode(expectedSendSize.rawValue, forKey: "SendSize")
        coder.encode(expectedReceiveSize.rawValue, forKey: "ReceiveSize")
    }

    // swift-format-ignore: NeverUseImplicitlyUnwrappedOptionals
    /// The default configuration of the group's operations.
    ///
    /// It is never `nil`; CloudKit declares the same type.
    public var defaultConfiguration: CKOperation.Configuration! {
        get { state.withLock { ConfigurationBox($0.configuration) }.value }
        set {
            let copy = ConfigurationBox(newValue?.independentCopy() ?? CKOperationConfiguration())
            state.withLock { $0.configuration = copy.value }
        }
    }

    /// A readable name for the purpose of the group.
    public var name: String? {
        get { state.withLock { $0.name } }
        set { state.withLock { $0.name = newValue } }
    }

    /// The number of items that the app expects to process.
    public var quantity: Int {
        get { state.withLock { $0.quantity } }
        set { state.withLock { $0.quantity = newValue } }
    }

    /// The amount of data that the app expects to send.
    public var expectedSendSize: TransferSize {
        get { state.withLock { $0.sendSize } }
        set { state.withLock { $0.sendSize = newValue } }
    }

    /// The amount of data that the app expects to receive.
    public var expectedReceiveSize: TransferSize {
        get { state.withLock { $0.receiveSize } }
        set { state.withLock { $0.receiveSize = newValue } }
    }

    /// The ID and the name on one line, without characters that are not allowed in a header.
    var label: String {
        let readable = (name ?? "").unicodeScalars.filter { $0.isASCII && $0.value >= 32 && $0.value < 127 }
        let text = String(String.UnicodeScalarView(readable.prefix(100)))
        return text.isEmpty ? operationGroupID : "\(operationGroupID) \(text)"
    }
}

/// Carries a configuration across the lock.
private struct ConfigurationBox: @unchecked Sendable {
    // Unchecked: a configuration must be used by one thread at a time.
    let value: CKOperationConfiguration
    init(_ value: CKOperationConfiguration) { self.value = value }
}

extension CKDatabase {
    /// Makes calls with their own configuration.
    ///
    /// - Parameters:
    ///   - configuration: The configuration of the calls; `nil` for the default.
    ///   - group: The group that the calls belong to.
    ///   - body: A closure that makes calls on the database that it receives.
    /// - Returns: The result of `body`.
    @discardableResult
    public func configuredWith<R>(
        configuration: CKOperation.Configuration? = nil,
        group: CKOperationGroup? = nil,
        body: (CKDatabase) throws -> R
    ) rethrows -> R {
        try body(configured(RequestSettings(configuration, group)))
    }

    /// Makes calls with their own configuration.
    ///
    /// - Parameters:
    ///   - configuration: The configuration of the calls; `nil` for the default.
    ///   - group: The group that the calls belong to.
    ///   - body: A closure that makes calls on the database that it receives.
    /// - Returns: The result of `body`.
    @discardableResult
    public nonisolated(nonsending) func configuredWith<R>(
        configuration: CKOperation.Configuration? = nil,
        group: CKOperationGroup? = nil,
        body: (CKDatabase) async throws -> R
    ) async rethrows -> R {
        try await body(configured(RequestSettings(configuration, group)))
    }
}

extension CKContainer {
    /// Returns this container with other request settings.
    private func configured(_ settings: RequestSettings) -> CKContainer {
        CKContainer(sharing: session, settings: settings)
    }

    /// Makes calls with their own configuration.
    ///
    /// - Parameters:
    ///   - configuration: The configuration of the calls; `nil` for the default.
    ///   - group: The group that the calls belong to.
    ///   - body: A closure that makes calls on the container that it receives, and on its databases.
    /// - Returns: The result of `body`.
    @discardableResult
    public func configuredWith<R>(
        configuration: CKOperation.Configuration? = nil,
        group: CKOperationGroup? = nil,
        body: (CKContainer) throws -> R
    ) rethrows -> R {
        try body(configured(RequestSettings(configuration, group)))
    }

    /// Makes calls with their own configuration.
    ///
    /// - Parameters:
    ///   - configuration: The configuration of the calls; `nil` for the default.
    ///   - group: The group that the calls belong to.
    ///   - body: A closure that makes calls on the container that it receives, and on its databases.
    /// - Returns: The result of `body`.
    @discardableResult
    public nonisolated(nonsending) func configuredWith<R>(
        configuration: CKOperation.Configuration? = nil,
        group: CKOperationGroup? = nil,
        body: (CKContainer) async throws -> R
    ) async rethrows -> R {
        try await body(configured(RequestSettings(configuration, group)))
    }
}
