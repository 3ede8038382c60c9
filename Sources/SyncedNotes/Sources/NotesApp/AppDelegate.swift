#if canImport(UIKit)
    import BackgroundTasks
    import Foundation
    import NotesModel
    import UIKit
    import ZoneKit

    /// Fetches changes when a push arrives, and now and then without one.
    final class AppDelegate: NSObject, UIApplicationDelegate {
        static let refresh = "org.example.notes.refresh"

        static func scheduleRefresh() {
            try? BGTaskScheduler.shared.submit(BGAppRefreshTaskRequest(identifier: refresh))
        }

        func application(
            _ application: UIApplication,
            didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]? = nil
        ) -> Bool {
            application.registerForRemoteNotifications()
            return true
        }

        func application(
            _ application: UIApplication,
            didRegisterForRemoteNotificationsWithDeviceToken deviceToken: Data
        ) {
            guard let cloud = NotesSession.shared.signIn?.cloud else { return }
            Task {
                try await cloud.registerForPushes(
                    .apns(deviceToken: deviceToken, bundleIdentifier: "org.example.notes", isDevelopment: true)
                )
            }
        }

        func application(
            _ application: UIApplication,
            didReceiveRemoteNotification userInfo: [AnyHashable: Any]
        ) async -> UIBackgroundFetchResult {
            await NotesSession.shared.start()
            return await NotesSession.shared.update() ? .newData : .failed
        }
    }
#endif
