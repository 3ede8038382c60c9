public import Foundation
import Records

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
    private(set) var wholeTime: Duration?
    /// The end of `wholeTime`; set when the operation starts to work.
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
        wholeTime = merged.resourceTimeout.flatMap { Duration(waitOf: max($0, 0)) }.map { min($0, .seconds(604_800)) }
        // No request waits for a network to become available, so the operation's timeout also limits each request.
        let limit = min(merged.timeoutIntervalForRequest, merged.timeoutIntervalForResource)
        if limit != CKOperationConfiguration().timeoutIntervalForRequest {
            timeout = Duration(waitOf: max(limit, 0.001)).map { min($0, .seconds(604_800)) }
        }
        if let group { self.group = group.label }
    }
}
