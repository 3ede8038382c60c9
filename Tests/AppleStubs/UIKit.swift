// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation
// The part of UIKit that SyncedNotes uses.

public import Foundation

@MainActor open class UIApplication: NSObject {
    public struct LaunchOptionsKey: Hashable, Sendable {}

    public func registerForRemoteNotifications() {}
}

public enum UIBackgroundFetchResult: Sendable { case newData, noData, failed }

@MainActor public protocol UIApplicationDelegate: NSObject {
    func application(
        _ application: UIApplication,
        didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
    ) -> Bool
    func application(
        _ application: UIApplication,
        didRegisterForRemoteNotificationsWithDeviceToken deviceToken: Data
    )
    func application(
        _ application: UIApplication,
        didReceiveRemoteNotification userInfo: [AnyHashable: Any]
    ) async -> UIBackgroundFetchResult
}
