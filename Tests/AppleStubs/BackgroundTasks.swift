// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation
// The part of BackgroundTasks that SyncedNotes uses.

public class BGTaskRequest {}

public final class BGAppRefreshTaskRequest: BGTaskRequest {
    public init(identifier: String) {}
}

public final class BGTaskScheduler: Sendable {
    public static let shared = BGTaskScheduler()
    public func submit(_ request: BGTaskRequest) throws {}
}
