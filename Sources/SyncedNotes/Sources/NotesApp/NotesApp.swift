import Foundation
import NotesModel
import Observation
import SwiftUI
import ZoneKit

@main struct NotesApp: App {
    @Environment(\.scenePhase) private var phase
    private let session = NotesSession.shared

    #if canImport(UIKit)
        @UIApplicationDelegateAdaptor private var delegate: AppDelegate

        var body: some Scene {
            window.backgroundTask(.appRefresh(AppDelegate.refresh)) {
                await session.start()
                _ = await session.update()
            }
        }
    #else
        var body: some Scene { window }
    #endif

    private var window: some Scene {
        WindowGroup {
            RootView(session: session)
                .task { await session.start() }
        }
        .onChange(of: phase) {
            #if canImport(UIKit)
                if phase == .background { AppDelegate.scheduleRefresh() }
            #endif
        }
    }
}

/// The signed-in user's notes, or the page at which to sign in.
@MainActor @Observable final class NotesSession {
    enum State {
        case starting
        case signedOut(page: URL)
        case open(Notes)
        case failed(String)
    }

    static let shared = NotesSession()

    private(set) var state = State.starting
    let signIn: SignIn?

    private init() {
        let storage = Keychain(service: "org.example.notes")
        if let endpoint = RelayEndpoint() {
            // For development: the relay and the user are in the scheme's environment variables.
            signIn = SignIn(CKContainer(identifier: "iCloud.org.example.notes", endpoint: endpoint), storage: storage)
        } else {
            signIn = URL(string: "https://sync.example.org").map {
                SignIn(relay: $0, apiToken: "…", storage: storage)
            }
        }
    }

    func start() async {
        guard let signIn else { return }
        do {
            if let page = try await signIn.page() {
                state = .signedOut(page: page)
            } else {
                try await open(signIn)
            }
        } catch {
            // Without a network, the notes of the last run are still here.
            do { try await open(signIn) } catch { state = .failed(error.localizedDescription) }
        }
    }

    func finishSignIn(_ callback: URL) async {
        do {
            try await signIn?.finish(callback)
            await start()
        } catch {
            state = .failed(error.localizedDescription)
        }
    }

    /// Fetches and sends what is waiting; returns whether that succeeded.
    func update() async -> Bool {
        guard case .open(let notes) = state else { return false }
        do {
            try await notes.update()
            return true
        } catch {
            return false
        }
    }

    private func open(_ signIn: SignIn) async throws {
        if case .open = state { return }
        let support = try FileManager.default.url(
            for: .applicationSupportDirectory,
            in: .userDomainMask,
            appropriateFor: nil,
            create: true
        )
        let folder = support.appendingPathComponent("Notes")
        state = .open(try await Notes(signIn.cloud, folder: folder))
    }
}
