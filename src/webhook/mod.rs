//! The webhook: conversion between the versions of our kinds, and admission.

pub mod certificates;
