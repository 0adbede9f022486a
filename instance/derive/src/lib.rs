//! `#[derive(Tuple)]`: makes a struct with named fields a tuple type of Egret.
//!
//! For a struct the macro writes a private `#[repr(C)]` struct of the fields' archived forms, which rkyv validates
//! in place, and the code that writes that archive straight into a given slice. Everything it names goes
//! through `::egret::__private`, so that a program needs no other dependency.

use proc_macro::TokenStream;
use proc_macro2::{Ident, TokenStream as Tokens, TokenTree};
use quote::{ToTokens, quote};
use syn::{Data, DeriveInput, Error, Fields, GenericParam, Lifetime, parse_macro_input};

/// Implements `egret::Tuple` for a struct with named fields.
///
/// Fields may be `bool`, the integers of 8 to 64 bits, `f32`, `f64`, `&'a str`, `String`, `&'a [u8]` and `Vec<u8>`.
/// The struct may have one lifetime and no type parameter.
#[proc_macro_derive(Tuple)]
pub fn derive_tuple(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// A field as the expansion needs it.
struct TupleField {
    name: Ident,
    /// The type as written.
    ty: Tokens,
    /// The type with the struct's lifetime replaced by `'static`.
    static_ty: Tokens,
}

fn expand(input: &DeriveInput) -> Result<Tokens, Error> {
    let lifetime = lifetime_of(input)?;
    let fields = fields_of(input, lifetime.as_ref())?;
    let name = &input.ident;
    let (implemented, view) = match &lifetime {
        Some(lifetime) => (quote!(#name<#lifetime>), quote!(#name<'__view>)),
        None => (quote!(#name), quote!(#name)),
    };
    let generics = lifetime.map(|lifetime| quote!(<#lifetime>));
    let archived = archived_struct(&fields);
    let record = record_impl(&fields, &generics, &implemented);
    let tuple = tuple_impl(name, &fields, &generics, &implemented, &view);
    Ok(quote! {
        const _: () = {
            use ::egret::__private as __egret;
            #archived
            #record
            #tuple
        };
    })
}

fn lifetime_of(input: &DeriveInput) -> Result<Option<Lifetime>, Error> {
    let mut lifetime = None;
    for parameter in &input.generics.params {
        match parameter {
            GenericParam::Lifetime(found) if lifetime.is_none() => lifetime = Some(found.lifetime.clone()),
            GenericParam::Lifetime(found) => {
                return Err(Error::new_spanned(found, "a tuple type may borrow with one lifetime only"));
            }
            other => {
                let message = "a tuple type has no type or const parameters; its fields are fixed";
                return Err(Error::new_spanned(other, message));
            }
        }
    }
    Ok(lifetime)
}

fn fields_of(input: &DeriveInput, lifetime: Option<&Lifetime>) -> Result<Vec<TupleField>, Error> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "a tuple type is a struct with named fields"));
    };
    let named = match &data.fields {
        Fields::Named(named) => &named.named,
        Fields::Unit => return Ok(Vec::new()),
        Fields::Unnamed(unnamed) => {
            let message = "the fields of a tuple type need names; groupings refer to them";
            return Err(Error::new_spanned(unnamed, message));
        }
    };
    let mut fields = Vec::new();
    for field in named {
        let Some(name) = field.ident.clone() else { continue };
        let ty = field.ty.to_token_stream();
        if mentions(ty.clone(), "static") {
            let message =
                "a tuple is read from a block and cannot borrow for 'static; give the struct a lifetime";
            return Err(Error::new_spanned(&field.ty, message));
        }
        let static_ty = match lifetime {
            Some(lifetime) => with_static(ty.clone(), &lifetime.ident),
            None => ty.clone(),
        };
        fields.push(TupleField { name, ty, static_ty });
    }
    Ok(fields)
}

/// Whether the lifetime `'name` stands in `tokens`.
fn mentions(tokens: Tokens, name: &str) -> bool {
    let mut after_quote = false;
    tokens.into_iter().any(|token| {
        let found = match &token {
            TokenTree::Group(group) => mentions(group.stream(), name),
            TokenTree::Ident(ident) => after_quote && ident == name,
            _ => false,
        };
        after_quote = is_quote(&token);
        found
    })
}

/// `tokens` with each lifetime called `lifetime` replaced by `'static`.
fn with_static(tokens: Tokens, lifetime: &Ident) -> Tokens {
    let mut after_quote = false;
    let replace = |token: TokenTree| {
        let replaced = match &token {
            TokenTree::Group(group) => TokenTree::Group(proc_macro2::Group::new(
                group.delimiter(),
                with_static(group.stream(), lifetime),
            )),
            TokenTree::Ident(ident) if after_quote && ident == lifetime => {
                TokenTree::Ident(Ident::new("static", ident.span()))
            }
            _ => token.clone(),
        };
        after_quote = is_quote(&token);
        replaced
    };
    tokens.into_iter().map(replace).collect()
}

fn is_quote(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == '\'')
}

/// The archive's root: one archived field after the other, laid out as C does.
fn archived_struct(fields: &[TupleField]) -> Tokens {
    let members = fields
        .iter()
        .map(|TupleField { name, static_ty, .. }| quote!(#name: <#static_ty as __egret::Field>::Archived));
    quote! {
        #[derive(__egret::rkyv::Portable, __egret::rkyv::bytecheck::CheckBytes)]
        #[rkyv(crate = __egret::rkyv)]
        #[bytecheck(crate = __egret::rkyv::bytecheck)]
        #[repr(C)]
        struct Archived { #(#members),* }
    }
}

fn record_impl(fields: &[TupleField], generics: &Option<Tokens>, implemented: &Tokens) -> Tokens {
    let names: Vec<_> = fields.iter().map(|f| &f.name).collect();
    let indices = 0..names.len();
    quote! {
        impl #generics __egret::Record for #implemented {
            #[inline]
            fn value(&self, index: usize) -> ::core::result::Result<__egret::Value<'_>, __egret::TupleError> {
                match index {
                    #(#indices => ::core::result::Result::Ok(__egret::Field::value(&self.#names)),)*
                    _ => ::core::result::Result::Err(__egret::no_such_field(index)),
                }
            }

            #[inline]
            fn encoded_len(&self) -> usize {
                let tail = 0 #(+ __egret::Field::value(&self.#names).tail_len())*;
                __egret::archive_len(tail, ::core::mem::size_of::<Archived>(), ::core::mem::align_of::<Archived>())
            }

            #[inline]
            fn write(&self, space: &mut [u8]) {
                #[allow(unused_mut, unused_variables)]
                let mut archive = __egret::ArchiveWriter::new::<{ ::core::mem::size_of::<Archived>() }>(space);
                #(archive.put(::core::mem::offset_of!(Archived, #names), __egret::Field::value(&self.#names));)*
            }
        }
    }
}

fn tuple_impl(
    name: &Ident,
    fields: &[TupleField],
    generics: &Option<Tokens>,
    implemented: &Tokens,
    view: &Tokens,
) -> Tokens {
    let names: Vec<_> = fields.iter().map(|f| &f.name).collect();
    let types = fields.iter().map(|f| &f.ty);
    // `r#type` is a fine name for a Rust field; in the topology it is `type`.
    let texts = names.iter().map(|n| n.to_string().trim_start_matches("r#").to_owned());
    quote! {
        impl #generics __egret::Tuple for #implemented {
            type View<'__view> = #view;

            const FIELDS: &'static [(&'static str, __egret::FieldKind)] =
                &[#((#texts, <#types as __egret::Field>::KIND)),*];

            #[inline]
            fn read(bytes: &[u8]) -> ::core::result::Result<Self::View<'_>, __egret::TupleError> {
                #[allow(unused_variables)]
                let archived = __egret::access::<Archived>(bytes)?;
                ::core::result::Result::Ok(#name { #(#names: __egret::FieldView::view(&archived.#names)),* })
            }
        }
    }
}
