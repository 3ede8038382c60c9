import AuthenticationServices
import Foundation
import NotesModel
import SwiftUI
import ZoneMirror

struct RootView: View {
    let session: NotesSession

    var body: some View {
        switch session.state {
        case .starting: ProgressView()
        case .signedOut(let page): SignInView(session: session, page: page)
        case .open(let notes): NotesView(notes: notes)
        case .failed(let reason): Text(reason)
        }
    }
}

/// Opens the relay's sign-in page in a sheet of the system's browser.
struct SignInView: View {
    let session: NotesSession
    let page: URL
    @Environment(\.webAuthenticationSession) private var browser
    @State private var problem: String?

    var body: some View {
        VStack {
            Button("Sign In") {
                Task {
                    do {
                        let callback = try await browser.authenticate(
                            using: page,
                            callback: .customScheme(SignIn.callbackScheme),
                            additionalHeaderFields: [:]
                        )
                        await session.finishSignIn(callback)
                    } catch {
                        problem = error.localizedDescription
                    }
                }
            }
            if let problem { Text(problem) }
        }
    }
}

/// All notes; the list changes whenever one of them does, here or on another device.
struct NotesView: View {
    let notes: Notes
    @SyncedQuery<Note> private var list: [Note]
    @State private var title = ""

    init(notes: Notes) {
        self.notes = notes
        _list = SyncedQuery(Note.self, sortedBy: .ascending(\.title), in: notes.container.viewContext)
    }

    var body: some View {
        List {
            TextField("New note", text: $title)
                .onSubmit {
                    try? notes.add(title)
                    title = ""
                }
            ForEach(list) { note in
                Button(note.done ? "✓ \(note.title)" : note.title) { try? notes.toggle(note) }
            }
            .onDelete { rows in
                for row in rows { try? notes.delete(list[row]) }
            }
        }
    }
}
