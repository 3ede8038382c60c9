// CloudKit re-exports Foundation, which re-exports Observation on Apple platforms. Apps rely on both.
@_exported public import Foundation
@_exported public import Observation
