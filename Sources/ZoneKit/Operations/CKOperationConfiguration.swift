public import Foundation
import Records

/// How an operation is to be carried out; known to programs as `CKOperation.Configuration`.
///
/// What is left alone is taken from the operation's group, if that says something. For one thread at a time.
public final class CKOperationConfiguration: NSObject, NSCopying, @unchecked Sendable {
    // Unchecked because it is set up by one thread before the operation begins, as in CloudKit.

    /// The container to work in; `nil`: that of the database, else `CKContainer.default()`.
    public var container: CKContainer?
    /// How urgent it is.
    public var qualityOfService: QualityOfService {
        get { urgency ?? .default }
        set { urgency = newValue }
    }
    /// Kept for programs that ask; the relay is reached by whatever network there is.
    public var allowsCellularAccess = true
    /// Kept for programs that ask; operations end with the process.
    public var isLongLived = false
    /// How long to wait for an answer to one request, in seconds; the default is 60.
    public var timeoutIntervalForRequest: TimeInterval {
        get { requestTimeout ?? 60 }
        set { requestTimeout = newValue }
    }
    /// How long the whole operation may take, in seconds; the default is a week.
    public var timeoutIntervalForResource: TimeInterval {
        get { resourceTimeout ?? 604_800 }
        set { resourceTimeout = newValue }
    }
    /// As the program set it.
    var urgency: QualityOfService?
    /// As the program set them.
    fileprivate var requestTimeout: TimeInterval?
    fileprivate var resourceTimeout: TimeInterval?

    /// Makes one with the usual settings.
    public override init() {}

    /// An independent copy.
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

/// What a call's requests have in common beyond the database they go to.
package struct RequestSettings: Sendable, Hashable {
    /// How long to wait for an answer; `nil`: as long as the transport does.
    package var timeout: Duration?
    /// The group's number and name, for the relay's log.
    package var group: String?
    /// What is asked for is asked for until there is an answer, as engines do.
    package var isRepeated = false
    /// How long all requests of one operation may take together; `nil`: as long as they need.
    private(set) var wholeTime: Duration?
    /// When that is over, once it has begun.
    var deadline: Deadline?

    package init() {}

    /// What they add to a request's headers.
    var headers: [(name: String, value: String)] {
        group.map { [(name: "X-Zonecast-Operation-Group", value: $0)] } ?? []
    }

    init(_ configuration: CKOperationConfiguration?, _ group: CKOperationGroup?) {
        // What the one leaves alone the other may say.
        let merged = CKOperationConfiguration()
        let common = group?.defaultConfiguration
        merged.requestTimeout = configuration?.requestTimeout ?? common?.requestTimeout
        merged.resourceTimeout = configuration?.resourceTimeout ?? common?.resourceTimeout
        wholeTime = merged.resourceTimeout.flatMap { Duration(waitOf: max($0, 0)) }.map { min($0, .seconds(604_800)) }
        // No request waits for a network to come, so the whole operation's time is a bound for each request.
        let limit = min(merged.timeoutIntervalForRequest, merged.timeoutIntervalForResource)
        if limit != CKOperationConfiguration().timeoutIntervalForRequest {
            timeout = Duration(waitOf: max(limit, 0.001)).map { min($0, .seconds(604_800)) }
        }
        if let group { self.group = group.label }
    }
}
